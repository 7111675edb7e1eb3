"""The fenced blocks of a document, and what the comments before them say.

A block in python, or one of commands (```, ```console, ```bash), is run unless the line before it is
`<!-- not run: REASON -->`. Other comments in that place:

  <!-- given: CODE -->      python that is run before it (in the page's namespace)
  <!-- needs: PACKAGE -->   the rest of the page is skipped where it is not installed
  <!-- exit code N -->      of a block of commands; 0 otherwise
  <!-- output within X -->  before a ```text block: what the blocks before it have printed has these
                            lines, in this order, every number within X
"""

import dataclasses
import re
from pathlib import Path

COMMANDS = ("", "console", "bash", "sh")
LANGUAGES = (*COMMANDS, "python", "text")
_FENCE = re.compile(
    r"(?P<comments>(?:^<!--(?:(?!-->).)*-->\n)*)"
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e-?\d+)?")


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
      line: of the document, from 1.
      language: after the fence; "" without one.
      text: what is between the fences.
      not_run: the reason, None where it is run.
      given: python to run before it.
      needs: names of packages.
      exit_code: of the commands.
      within: None, or how far numbers of an output may be off.
    """

    line: int
    language: str
    text: str
    not_run: str | None = None
    given: str = ""
    needs: tuple[str, ...] = ()
    exit_code: int = 0
    within: float | None = None


def blocks_of(path: Path) -> list[Block]:
    """Return the blocks of a document; raises ValueError for a comment that means nothing here."""
    text, blocks = path.read_text("utf-8"), []
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("indent")) + 1
        said = _said(found["comments"], f"{path.name}, line {line}")
        blocks.append(Block(line, found["language"].strip(), found["text"], **said))
    fences = len(re.findall(r"^ *```", text, re.MULTILINE))
    if fences != 2 * len(blocks):
        raise ValueError(f"{path.name}: {fences} fences make {len(blocks)} blocks")
    return blocks


def _said(comments: str, where: str) -> dict[str, object]:
    said: dict[str, object] = {}
    for comment in re.findall(r"<!--\s*(.*?)\s*-->", comments, re.DOTALL):
        word, _, rest = comment.partition(":")
        if word == "not run" and rest.strip():
            said["not_run"] = rest.strip()
        elif word == "given" and rest.strip():
            said["given"] = rest.strip()
        elif word == "needs" and rest.strip():
            said["needs"] = tuple(rest.replace(",", " ").split())
        elif found := re.fullmatch(r"exit code (\d+)", comment):
            said["exit_code"] = int(found[1])
        elif found := re.fullmatch(r"output within ([\d.]+)", comment):
            said["within"] = float(found[1])
        else:
            raise ValueError(f"{where}: <!-- {comment} --> says nothing that a block can heed")
    return said


def missing_line(expected: str, printed: str, within: float) -> str | None:
    """Return the first line of an expected output that was not printed (in order), or None."""
    lines = iter(printed.splitlines())
    for line in filter(str.strip, expected.splitlines()):
        if not any(_same(line, other, within) for other in lines):
            return line
    return None


def _same(line: str, other: str, within: float) -> bool:
    """Are the words the same, and the numbers near? Log lines may begin with time and place."""
    numbers, others = _NUMBER.findall(line), _NUMBER.findall(other)
    words = [" ".join(_NUMBER.sub("#", text).split()) for text in (line, other)]
    if not words[1].endswith(words[0]):
        return False
    others = others[len(others) - len(numbers) :]
    return all(abs(float(a) - float(b)) <= within for a, b in zip(numbers, others, strict=True))
