"""One line of the report."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was found.

    Attributes:
      section: `versions`, `optional`, `devices`, `caches`, `environment`.
      name: of the package, check, folder or variable.
      value: as found.
      problem: what is wrong and what to do about it; empty where all is well.
    """

    section: str
    name: str
    value: str
    problem: str = ""
