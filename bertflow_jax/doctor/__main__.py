"""Say whether this machine can run bertflow_jax, and what to mend if it cannot.

  python -m bertflow_jax.doctor
  python -m bertflow_jax.doctor --json > report.json

Prints the versions of the packages, the devices and whether they compute rightly, the folders of
caches and the environment variables that matter (of tokens only that they are set). Exit code 0:
all is well; 2: something is to be mended, listed at the end. Nothing is downloaded or changed. It
is what to add to a report of a bug.
"""

# Before the imports, which take seconds: Ctrl-C is heeded without them.
from bertflow_jax.interrupt import end_at_once

if __name__ == "__main__":
    end_at_once()

import dataclasses
import json

from absl import flags

from bertflow_jax import cli
from bertflow_jax.doctor.devices import find_devices
from bertflow_jax.doctor.environment import find_environment
from bertflow_jax.doctor.finding import Finding
from bertflow_jax.errors import ConfigError

_JSON = flags.DEFINE_bool("json", False, "Print one JSON object instead of text.")
_TIMEOUT = flags.DEFINE_float(
    "timeout", 120.0, "Seconds to wait for the devices, which can hang.", lower_bound=1.0
)


def find_all(timeout: float) -> list[Finding]:
    """Return everything that was found, in the order of the report."""
    try:
        # packaging and huggingface_hub may be what is missing.
        from bertflow_jax.doctor.places import find_places
        from bertflow_jax.doctor.versions import find_optional, find_versions

        packages, places = [*find_versions(), *find_optional()], find_places()
    except ImportError as error:
        problem = f"{error.name} is not installed: pip install -r requirements.txt"
        packages, places = [Finding("versions", str(error.name), "absent", problem)], []
    return [*packages, *find_devices(timeout), *places, *find_environment()]


def main() -> None:
    """Print the report.

    Raises:
      ConfigError: something is to be mended.
    """
    found = find_all(_TIMEOUT.value)
    problems = [finding.problem for finding in found if finding.problem]
    if _JSON.value:
        findings = [dataclasses.asdict(finding) for finding in found]
        print(json.dumps({"problems": problems, "findings": findings}, indent=2))
    else:
        print(as_text(found))
    if problems:
        count = "1 thing is" if len(problems) == 1 else f"{len(problems)} things are"
        raise ConfigError("\n".join([f"{count} to be mended:", *(f"  - {p}" for p in problems)]))


def as_text(found: list[Finding]) -> str:
    """Return the report, a section a heading; what is wrong is marked."""
    lines = []
    section = ""
    for finding in found:
        if finding.section != section:
            section = finding.section
            lines.append(section)
        mark = "!" if finding.problem else " "
        lines.append(f"{mark} {finding.name:<24} {finding.value}")
    return "\n".join(lines)


if __name__ == "__main__":
    cli.run(main, computes=False, anywhere=True)
