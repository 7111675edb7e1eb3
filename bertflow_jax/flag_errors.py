"""Why the flags of a command, or the config file among them, cannot be read."""

import difflib
import math
import os
import re
import traceback
from pathlib import Path

from absl import flags

from bertflow_jax.config import Config, field_names
from bertflow_jax.errors import ConfigError
from bertflow_jax.paths import refuse_unreadable

# What ml_collections raises for a field of none, of a class, of a number or of a string.
_NO_FIELD = (
    r"Field \w+ not found on dataclass|Attribute <class .*>.* does not exist|string indices must be"
)


def refuse_infinite() -> None:
    """Raise for NaN and infinity, which pass absl's bounds; the config's fields have their own."""
    for name, value in flags.FLAGS.flag_values_dict().items():
        if isinstance(value, float) and not math.isfinite(value) and not name.startswith("config."):
            raise flags.IllegalFlagValueError(f"flag --{name}={value}: must be a finite number")


def refuse_sections(argv: list[str]) -> None:
    """Raise for a value of a whole section of the config, which would be reset by it or refused."""
    if "config" not in flags.FLAGS:
        return
    names = field_names(Config)
    for word in argv[1:]:
        path = _field(word)
        within = [f"--config.{name}" for name in names if name.startswith(f"{path}.")]
        if path and within:
            raise flags.IllegalFlagValueError(
                f"{word}: {path} is a section of the config; set a field of it: {', '.join(within)}"
            )


def parse_error(error: BaseException, argv: list[str]) -> str:
    """Say in a line or two why the flags, or the config file among them, cannot be read."""
    named = re.search(r"--?config[= ](\S+)", " ".join(argv))
    if any(re.fullmatch(r"--?config=\s*", word) for word in argv):
        return "--config is blank: name a file, e.g. --config=configs/demo.py"
    if named is not None:
        file = Path(named[1].partition(":")[0])
        if os.path.isdir(file):
            return f"--config={named[1]} is a folder; name a file, e.g. --config=configs/demo.py"
        try:
            refuse_unreadable(file, f"--config={named[1]}")
        except ConfigError as refused:
            return str(refused)
        if not os.path.exists(file):
            return f"--config={named[1]}: no such file"
    if isinstance(error, OSError):
        return str(error)
    if isinstance(error, flags.Error) and "Error whilst parsing config file" not in str(error):
        field = next((word for word in argv[1:] if re.match(r"--?config\.", word)), None)
        if field is not None and named is None and "config" in flags.FLAGS:
            return (
                f"{field} sets a field of a config file: give --config=FILE too, as "
                "--config=configs/text.py"
            )
        if isinstance(error, flags.UnrecognizedFlagError) and "config" in flags.FLAGS:
            hint = _hint(error.flagname, field_names(Config))
            return f"{error}{'' if 'Did you mean' in str(error) else hint}"
        # absl shows the arguments of its own error there.
        return re.sub(r"\('Non-boolean argument.*\)$", "must be true or false", str(error))
    if not given(argv):
        return str(error)
    # ml_collections and absl wrap what a config file raised, with its traceback as text.
    while error.__context__ is not None:
        error = error.__context__
    places = config_places(error)
    what = error.args[0] if isinstance(error, KeyError) and error.args else error
    if not places and re.match(_NO_FIELD, str(what)):
        told = next(filter(None, map(_unknown_field, argv[1:])), "")
        if told:
            return told
    return (
        f"{given(argv)}: {type(error).__name__}{places[-1] if places else ''}: {what}; the file "
        "must define get_config(), which returns a bertflow_jax.Config, and --config.a.b=value "
        "sets a field of it"
    )


def given(argv: list[str]) -> str:
    """Return the words of the command line that are about the config."""
    return " ".join(word for word in argv[1:] if word.lstrip("-").startswith("config"))


def config_places(error: BaseException) -> list[str]:
    """Return the places in the file of --config that an exception came through, outermost first."""
    # ml_collections loads the file as a module of this name.
    return [
        f" at {frame.f_code.co_filename}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == "config_config"
    ]


def _field(word: str) -> str:
    """Return the config's field that a word of the command line sets, "" where it sets none."""
    found = re.match(r"--?config\.([\w.]+)", word)
    return found[1] if found else ""


def _unknown_field(word: str) -> str:
    """Say which fields look like one that the config has not; "" for any other word."""
    path, names = _field(word), field_names(Config)
    if not path or path in names:
        return ""
    return f"{word}: unknown config field {path!r}{_hint(path, names)}"


def _hint(path: str, names: list[str]) -> str:
    """Return the fields that a name looks like: by all of it, or by its last part alone."""
    by_last: dict[str, list[str]] = {}
    for name in names:
        by_last.setdefault(name.rpartition(".")[2], []).append(name)
    last = path.rpartition(".")[2]
    same = by_last.get(last, [])
    near = difflib.get_close_matches(path, same or names, n=1, cutoff=0.7) or same
    if not near:
        close = difflib.get_close_matches(last, by_last, n=1, cutoff=0.75)
        near = [name for part in close for name in by_last[part]]
    if near:
        return f"; did you mean {' or '.join(f'--config.{name}' for name in near)}?"
    sections = sorted({name.partition(".")[0] for name in names if "." in name})
    section = path.partition(".")[0]
    for close_one in difflib.get_close_matches(section, sections, n=1):
        fields = [name.partition(".")[2] for name in names if name.startswith(f"{close_one}.")]
        return f"; the fields of --config.{close_one} are {', '.join(fields)}"
    return ""
