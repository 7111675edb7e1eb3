"""Every block of every document: run, or refused to be run for a reason and checked otherwise."""

import contextlib
import importlib.util
import io
import re
import subprocess
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from documents.blocks import COMMANDS, LANGUAGES, Block, blocks_of, missing_line

from bertflow_jax.__main__ import COMMANDS as OUR_COMMANDS
from bertflow_jax.config import Config, field_names

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def is_run(block: Block) -> bool:
    return block.not_run is None and block.language != "text"


RUN = [page for page in PAGES if any(map(is_run, blocks_of(page)))]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def run_python(block: Block, page: Path, space: dict[str, object]) -> str:
    """Run a python block in a page's namespace; return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block.given, space)
        # Empty lines above, so that a traceback names the line of the page.
        source = "\n" * block.line + block.text
        exec(compile(source, str(page), "exec"), space)
    return printed.getvalue()


def run_commands(block: Block, page: Path, folder: Path, bash) -> str:
    done = bash(block.text, folder)
    where = f"{name(page)}, line {block.line}"
    assert done.returncode == block.exit_code, f"{where}\n{block.text}\n{done.stdout[-4000:]}"
    assert "Traceback" not in done.stdout, f"{where}\n{done.stdout[-4000:]}"
    return done.stdout


@pytest.mark.parametrize("page", RUN, ids=name)
def test_blocks_run_in_order(page, clone, bash, monkeypatch):
    """An example that has never been run: a renamed flag or field, a wrong output, a missing import."""
    monkeypatch.chdir(clone)
    space: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    for block in blocks_of(page):
        for package in block.needs:
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"{name(page)} from line {block.line} on needs {package}")
        if block.within is not None:
            line = missing_line(block.text, printed, block.within)
            assert line is None, f"{name(page)}, line {block.line}: no {line!r} in\n{printed}"
            printed = ""
        elif is_run(block) and block.language == "python":
            printed += run_python(block, page, space)
        elif is_run(block) and block.language in COMMANDS:
            exec(block.given, space)
            printed += run_commands(block, page, clone, bash)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_have_a_known_language(page):
    """Output that is taken for commands, or a block that nothing checks."""
    unknown = [(b.line, b.language) for b in blocks_of(page) if b.language not in LANGUAGES]
    assert unknown == [], "```python, ``` (commands) and ```text (output) are checked"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_is_not_run_can_be_read(page):
    """A quote or a bracket that is missing in a block that no test runs."""
    for block in blocks_of(page):
        if block.not_run is None:
            continue
        if block.language == "python":
            compile("\n" * block.line + block.text, str(page), "exec")
        else:
            done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, ""), f"{name(page)}, line {block.line}"


@pytest.fixture(scope="session")
def known_flags(bash):
    """Command -> its flags, of --help; `postprocess` has those of both of its parts."""
    flags = {}
    for command in OUR_COMMANDS:
        parts = ["fit", "apply"] if command.endswith("postprocess") else [""]
        done = [bash(f"python {command} {part} --help", ROOT) for part in parts]
        text = "\n".join(each.stdout for each in done)
        flags[command] = set(re.findall(r"^ +--(?:\[no\])?(\w+)", text, re.MULTILINE)) | {"help"}
        assert len(flags[command]) > 2, text
    return flags


def commands_in(text: str) -> list[tuple[str, list[str]]]:
    """Return (command of ours, its words) of the blocks of a text."""
    text = re.sub(r"\\\n\s*", " ", text)
    names = "|".join(re.escape(command) for command in OUR_COMMANDS)
    found = re.findall(rf"(?:python|python3) ({names})(?![.\w])([^;|&\n]*)", text)
    return [(command, rest.split("  #")[0].split()) for command, rest in found]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_flags_and_fields_exist(page, known_flags):
    """A flag, a config field or a config file that was renamed, in a block that no test runs."""
    known_fields = field_names(Config)
    text = "\n".join(block.text for block in blocks_of(page) if block.language in COMMANDS)
    for command, words in commands_in(text):
        for word in words:
            flag = re.match(r"--(?:config\.([\w.]+)|(?:no)?(\w+))(?:=(\S*))?", word)
            if flag is None:
                continue
            field, plain, value = flag[1], flag[2], flag[3] or ""
            if field is not None:
                assert field in known_fields, (command, word)
            else:
                full = word.removeprefix("--").split("=")[0]
                assert {plain, full} & known_flags[command], (command, word)
            if plain == "config" and "NAME" not in value:
                assert (ROOT / value).is_file(), (command, word)


def test_every_config_field_is_in_the_reference():
    """A section of the configuration that the reference leaves out, or a field without a word."""
    shown = (ROOT / "docs" / "reference" / "config.md").read_text("utf-8")
    classes = [Config, *(f.type for f in fields(Config) if is_dataclass(f.type))]
    for section in classes:
        assert f"::: {section.__module__}.{section.__name__}" in shown
        described = set(re.findall(r"^ {6}(\w+): ", section.__doc__, re.MULTILINE))
        assert {field.name for field in fields(section)} <= described, section
