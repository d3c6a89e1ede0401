"""Names of fabrics for the tests of one process, so that two test runs on one machine leave each other in peace."""

from __future__ import annotations

import os


def own(what: str) -> str:
    """A fabric's name for `what` that no other test process uses."""
    return f"it-{what}-{os.getpid():x}"
