"""The result folder: ``<results>/demo/<date>-<time>/`` with a ``latest`` link beside it.

Under sudo everything made here is given to the user who called sudo.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from mrc_lab.errors import ExperimentError
from mrc_lab.reports.result_folder import point_latest


class ResultFolder:
    """One run's folder, made at once so that an unwritable place is found before anything starts."""

    def __init__(self, results: Path, kind: str = "demo", *, environment: Mapping[str, str] | None = None) -> None:
        self._owner = _invoking_user(os.environ if environment is None else environment)
        parent = results.absolute() / kind
        made = [path for path in (results.absolute(), parent) if not path.exists()]
        try:
            self.path = _fresh(parent)
        except OSError as error:
            raise ExperimentError(
                f"cannot write results to {parent}: {error.strerror}", "Choose --results DIR."
            ) from error
        self._made = [*made, self.path]

    def finish(self) -> None:
        """Point ``latest`` here and hand everything to its owner."""
        link = self.path.parent / "latest"
        point_latest(self.path)
        if self._owner is not None:
            links = [link] if link.is_symlink() else []
            for path in (*self._made, *links, *self.path.rglob("*")):
                os.chown(path, *self._owner, follow_symlinks=False)

    def discard(self) -> None:
        """Remove the folder with the files in it, and the folders that were made for it."""
        for file in self.path.iterdir():
            file.unlink()
        for path in reversed(self._made):
            path.rmdir()


def _fresh(parent: Path) -> Path:
    """A new folder in `parent` named after the time, with a number behind it if that is taken."""
    parent.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        path = parent / (stamp if number == 1 else f"{stamp}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise FileExistsError(17, "too many results of the same second", str(parent))


def _invoking_user(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """User and group who called sudo, None when nobody did."""
    if os.geteuid() != 0 or "SUDO_UID" not in environment:
        return None
    return int(environment["SUDO_UID"]), int(environment.get("SUDO_GID", environment["SUDO_UID"]))
