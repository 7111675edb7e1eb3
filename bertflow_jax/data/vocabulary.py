"""vocab.txt, and whether a vocabulary fits the embedding table."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import tokenizers

from bertflow_jax.data.json_files import broken_link, refuse_pointer
from bertflow_jax.errors import BertFlowWarning, ConfigError, DataNotFoundError

# A table may be rounded up to a multiple of 128. JSON that is cut is no JSON, so that so few rows
# without a token say nothing of a tokenizer.json, but they may of a vocab.txt.
_ROUNDED = 127


def read_vocab(path: Path) -> dict[str, int]:
    """Return token -> id of a vocab.txt; of two equal lines the last one counts.

    Raises DataNotFoundError if there is no such file, ConfigError if it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataNotFoundError(
            f"{path.parent} has no tokenizer; looked for tokenizer.json and vocab.txt"
            f"{broken_link(path)}"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 ({error})") from error
    refuse_pointer(path, text[:100].encode())
    lines = text.split("\n")
    # A vocabulary may hold U+2028 or U+0085 as tokens: only \n separates lines.
    lines = lines[:-1] if lines[-1] == "" else lines
    return {line.removesuffix("\r"): i for i, line in enumerate(lines)}


def compare_vocabularies(backend: tokenizers.Tokenizer, folder: Path) -> None:
    """Warn where a vocab.txt beside the tokenizer.json, edited say, gives tokens other ids."""
    if not (folder / "vocab.txt").is_file():
        return
    listed, used = read_vocab(folder / "vocab.txt"), backend.get_vocab()
    other = next((token for token in listed if used.get(token) != listed[token]), None)
    if other is not None:
        warnings.warn(
            f"{folder}: the token {other!r} is {listed[other]} in vocab.txt and {used.get(other)} "
            "in tokenizer.json; the latter is used: delete the file that is out of date",
            BertFlowWarning,
            stacklevel=2,
        )


def check_size(
    backend: tokenizers.Tokenizer, pad: tuple[str, int], vocab_size: int, source: str
) -> None:
    """Compare a vocabulary with the embedding table.

    Tokens that were added to it may lie beyond the table: they are refused where a text has one.

    Args:
      backend: the tokenizer.
      pad: text and id of the padding token.
      vocab_size: rows of the embedding table.
      source: the file, for messages.

    Raises:
      ConfigError: the vocabulary, or the padding token, needs more rows than the table has.
    """
    if pad[1] >= vocab_size:
        raise ConfigError(
            f"{source}: the padding token {pad[0]} has id {pad[1]}, but the encoder's embedding "
            f"table has {vocab_size} rows; tokenizer and weights do not belong together"
        )
    if (rows := _rows(backend.get_vocab(with_added_tokens=False))) > vocab_size:
        raise ConfigError(
            f"{source} has {rows} tokens, but the encoder's embedding table has {vocab_size} rows "
            "(vocab_size of its config); tokenizer and weights do not belong together"
        )
    tokens = _rows(backend.get_vocab(with_added_tokens=True))
    if tokens + (_ROUNDED if source.endswith(".json") else 0) < vocab_size:
        warnings.warn(
            f"{source} has {tokens} tokens, and the encoder's embedding table {vocab_size} rows "
            "(vocab_size of its config): check that the file is whole, and that tokenizer and "
            "weights belong together",
            BertFlowWarning,
            stacklevel=2,
        )


def _rows(vocab: Mapping[str, int]) -> int:
    """Return how many rows ids need; no text has the token of a blank line, as at a file's end."""
    return 1 + max((number for token, number in vocab.items() if token.strip()), default=-1)
