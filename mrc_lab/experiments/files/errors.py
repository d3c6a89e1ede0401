"""The error of everything that can be wrong with an experiment file."""

from __future__ import annotations

from mrc_lab.errors import ExperimentError


class FileError(ExperimentError):
    """One sentence that begins with the file and, where there is one, the line and the key."""
