"""Documents of no particular room."""

from __future__ import annotations

from mrc_common.declared import document
from mrc_common.declared.document import Source, Value


class DocumentError(Exception):
    """Something is wrong in a document."""


def parse(text: str, name: str = "file") -> Value:
    return document.parse(text, Source(name, DocumentError))


def plain(place: Value) -> object:
    """A document as Python has it."""
    if place.is_mapping:
        return {key: plain(value) for key, value in place.items().items()}
    return [plain(element) for element in place.elements()] if place.is_list else place.scalar()
