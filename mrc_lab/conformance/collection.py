"""The scripts that come with the kit, and where users' own are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mrc_common import named_files
from mrc_lab.conformance.script import Script, parse_script
from mrc_lab.errors import ExperimentError

FOLDER = Path(__file__).with_name("scripts")
SUFFIX = ".script"

_MAX_BYTES = 1 << 20


def load_scripts(places: Sequence[Path] = ()) -> list[Script]:
    """The scripts in files and folders, or those of the kit, by rule. Raises ExperimentError."""
    files: list[Path] = []
    for place in places or (FOLDER,):
        files += sorted(place.glob(f"*{SUFFIX}")) if place.is_dir() else [place]
    if not files:
        raise ExperimentError(f"no file in {', '.join(map(str, places))} ends in {SUFFIX}")
    return sorted(map(_load, files), key=lambda script: (_number(script.rule), script.name))


def _load(file: Path) -> Script:
    try:
        text = named_files.read_text(file, _MAX_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{file} cannot be read: {error}") from None
    return parse_script(text, file.stem)


def _number(rule: str) -> tuple[int, ...]:
    return tuple(map(int, rule[1:].split(".")))
