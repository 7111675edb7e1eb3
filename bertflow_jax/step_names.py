"""Names of the folders of steps."""

UNFINISHED_SAVE = ".orbax-checkpoint-tmp"  # in the name of a folder that orbax is still writing
_LAST = 2**31 - 1  # of `train.steps`; a step is an int32


def is_step(name: str) -> bool:
    """Whether a folder of this name is a step."""
    # No other spelling of a number than the one that is written: not 007, no digits of other
    # scripts.
    plain = name.isascii() and name.isdigit() and len(name) <= len(str(_LAST))
    return plain and str(int(name)) == name and int(name) <= _LAST
