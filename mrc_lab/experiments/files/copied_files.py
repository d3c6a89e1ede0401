"""Copies of the files that an experiment names, beside the copy of the experiment in its result folder."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from mrc_lab.errors import ExperimentError


def copy_beside(path: str, files: Iterable[Path], folder: Path) -> None:
    """Copy `files`, which an experiment names by `path`, unless that leads to another folder than the experiment's.

    Raises ExperimentError when a file cannot be copied; then no part of it is left.
    """
    for file in files:
        if Path(path).name != path or (folder / file.name).exists():
            continue
        try:
            shutil.copyfile(file, folder / file.name)
        except OSError as error:
            with contextlib.suppress(OSError):
                (folder / file.name).unlink()
            raise ExperimentError(f"{file} cannot be copied to {folder}: {error.strerror}") from None
