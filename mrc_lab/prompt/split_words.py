"""A typed line to words."""

from __future__ import annotations

import shlex

from mrc_lab.errors import ExperimentError


def split_words(line: str) -> list[str]:
    """The words of a line, as a shell splits them; ExperimentError when a quote or a backslash is left open."""
    try:
        return shlex.split(line)
    except ValueError as error:
        missing = "closing quote" if "quotation" in str(error) else "character after the last backslash"
        raise ExperimentError(f"Missing {missing}") from None
