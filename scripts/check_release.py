"""Check that a tag may release what is here: ``python3 -m scripts.check_release v0.2.0``.

The version is written once, in pyproject.toml; the tag must be the same with a v before it, CITATION.cff must have it,
and the changelog must have a section for it with a date. Prints what is not so, and ends with status 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def problems(tag: str, root: Path = ROOT) -> Iterator[str]:
    """What keeps the tag from being released, in sentences."""
    (version,) = re.findall(r'^version = "([^"]+)"$', (root / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    if tag != f"v{version}":
        yield f"The tag is {tag}, but pyproject.toml says version {version}: tag v{version}, or change the version."
    if not re.search(rf"^version: {re.escape(version)}$", (root / "CITATION.cff").read_text("utf-8"), re.MULTILINE):
        yield f"CITATION.cff does not have version {version}."
    heading = rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$"
    if not re.search(heading, (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE):
        yield f"CHANGELOG.md has no section '## {version} - YYYY-MM-DD': put the date of the release there."


def main(arguments: list[str]) -> int:
    """Print the problems."""
    if len(arguments) != 1:
        print("usage: python3 -m scripts.check_release TAG", file=sys.stderr)
        return 2
    found = list(problems(arguments[0]))
    print("\n".join(found) or f"{arguments[0]} can be released.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
