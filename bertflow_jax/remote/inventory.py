"""What a bucket holds of a run's checkpoints, by the names of its objects; see `remote.steps`."""

import dataclasses
from collections.abc import Iterable
from pathlib import PurePosixPath

from bertflow_jax.step_names import is_step

COMMIT = ".commit.json"
UNFINISHED = ".unfinished"


@dataclasses.dataclass(frozen=True)
class Inventory:
    """What lies under checkpoints/.

    Attributes:
      files: step -> names of its files, relative to the step.
      committed: steps with a marker.
      begun: steps whose upload or delete has begun and, as far as the bucket says, not ended.
      other: names of anything else.
    """

    files: dict[int, list[str]]
    committed: set[int]
    begun: set[int]
    other: list[str]

    @classmethod
    def of(cls, names: Iterable[str]) -> "Inventory":
        """Sort names, which are relative to checkpoints/."""
        found = cls({}, set(), set(), [])
        for name in names:
            first, slash, rest = name.partition("/")
            if slash and is_step(first):
                found.files.setdefault(int(first), []).append(rest)
            elif name.endswith(COMMIT) and is_step(name.removesuffix(COMMIT)):
                found.committed.add(int(name.removesuffix(COMMIT)))
            elif name.endswith(UNFINISHED) and is_step(name.removesuffix(UNFINISHED)):
                found.begun.add(int(name.removesuffix(UNFINISHED)))
            else:
                found.other.append(name)
        return found

    def steps(self) -> list[int]:
        """Return the complete steps in ascending order."""
        return sorted(self.committed | (set(self.files) - self.begun))


def is_inside(name: str) -> bool:
    """Whether the name of a file, relative to its step, leads to a place in the step."""
    path = PurePosixPath(name)
    return bool(name) and not path.is_absolute() and ".." not in path.parts
