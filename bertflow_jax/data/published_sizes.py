"""Whether scored pairs are those that published scores of a task are computed from."""

import itertools
from collections.abc import Mapping

from bertflow_jax.data.sts_files import STS_TASKS, STS_YEARS
from bertflow_jax.data.tfds_builders.releases import RELEASES

_PUBLISHED_SPLIT = "test"
# Labelled pairs of GLUE: split -> how many there are. MRPC as it was published has no dev, whose
# pairs are part of its train. QQP's train has broken lines, and one reader finds more than another.
_GLUE: dict[str, dict[str, tuple[int, ...]]] = {
    "qnli": {"train": (104_743,), "dev": (5_463,)},
    "mrpc": {"train": (3_668, 4_076), "dev": (408,), "test": (1_725,)},
    "qqp": {"dev": (40_430,)},
}


def differences(task: str, sizes: Mapping[str, int]) -> list[str]:
    """Return what a task's scored pairs differ in from the released data, in words.

    Args:
      task: any name; of a task that is neither of STS nor of GLUE nothing is known.
      sizes: scored pairs by subset of a year; of the others one, by its splits: `train+dev`.
    """
    if task in _GLUE:
        return _glue_differences(_GLUE[task], sizes)
    if task not in STS_TASKS:
        return []
    released = RELEASES[task].sizes
    if task not in STS_YEARS and len(sizes) == 1:
        splits = next(iter(sizes))
        if all(split in released for split in splits.split("+")):
            released = {splits: sum(released[split] for split in splits.split("+"))}
    missing = [name for name in released if name not in sizes]
    extra = [name for name in sizes if name not in released]
    found = [_listed(missing, "missing")] if missing else []
    found += [_listed(extra, "not part of the published scores")] if extra else []
    return found + [
        f"{name} has {sizes[name]} scored pairs instead of {size}"
        for name, size in released.items()
        if sizes.get(name, size) != size
    ]


def _glue_differences(known: Mapping[str, tuple[int, ...]], sizes: Mapping[str, int]) -> list[str]:
    found = []
    for splits, size in sizes.items():
        parts = [known.get(split, ()) for split in splits.split("+")]
        possible = [sum(parts) for parts in itertools.product(*parts)]
        if possible and size not in possible:
            wanted = " or ".join(map(str, possible))
            found.append(f"{splits} has {size} scored pairs instead of {wanted}")
    return found


def other_split(task: str, sizes: Mapping[str, int]) -> str | None:
    """Return the splits of STS-B or SICK that are scored, None where they are the published one."""
    if task not in STS_TASKS or task in STS_YEARS or list(sizes) == [_PUBLISHED_SPLIT]:
        return None
    return "+".join(sizes)


def data_note(task: str, sizes: Mapping[str, int]) -> str | None:
    """Return `differences` as one sentence, None without any."""
    found = differences(task, sizes)
    return f"{'; '.join(found)}: not comparable with published scores" if found else None


def unlike_published(task: str, sizes: Mapping[str, int]) -> str | None:
    """Return why a task's scores cannot be held against published ones, None where they can.

    Arguments as of `differences`.
    """
    split = other_split(task, sizes)
    if split is not None and not differences(task, sizes):
        return f"scored on {split}: not comparable with scores of {_PUBLISHED_SPLIT}"
    return data_note(task, sizes)


def _listed(names: list[str], state: str) -> str:
    several = len(names) > 1
    return f"subset{'s' * several} {', '.join(names)} {'are' if several else 'is'} {state}"
