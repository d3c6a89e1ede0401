"""Names of list elements, such as tenants and faults, by which sweeps and variants change them."""

from __future__ import annotations

import re
from typing import Final

from mrc_common.declared.document import Value
from mrc_common.declared.field_types import Text

_NAME: Final = re.compile(r"(?!\d+$)[A-Za-z0-9][A-Za-z0-9_+-]{0,31}")  # a number would be a place in the list


def read_name(value: Value) -> str:
    """The name; FileError when it is none."""
    name: str = Text().read(value)
    if not _NAME.fullmatch(name):
        raise value.error(f"{name[:80]!r} must be letters, digits and - + _, 32 at most, and no number")
    return name
