"""Keys of experiment files that have another name now: the old one is still understood, with a note.

They are replaced while a document is read, before variants are laid over it, so nothing else knows the old names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import yaml

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "open_messages": "max_inflight_messages",
        "plane_burst": "plane_skew_limit",
        "reverse_interval": "reverse_probe_interval",
    }
)
"""Old names in ``transport.settings``, with today's."""

_SECTION = ("transport", "settings")


def replace_old_keys(document: yaml.Node) -> tuple[str, ...]:
    """Give renamed keys of a whole file, and of its variants, their names of today; notes, one for each key."""
    notes = _replace_in(document)
    variants = _member(document, "variants")
    if isinstance(variants, yaml.SequenceNode):
        for variant in variants.value:
            notes += _replace_in(variant)
    return tuple(notes)


def current_key(key: str) -> tuple[str, str]:
    """Today's name of a dotted key (``transport.settings.plane_burst``), and a note where that is another."""
    *section, name = key.split(".")
    if tuple(section[-2:]) != _SECTION or name not in SETTINGS:
        return key, ""
    return ".".join((*section, SETTINGS[name])), _note(name)


def _replace_in(part: yaml.Node) -> list[str]:
    settings: yaml.Node | None = part
    for name in _SECTION:
        settings = _member(settings, name)
    notes: list[str] = []
    for key, _ in settings.value if isinstance(settings, yaml.MappingNode) else ():
        if isinstance(key, yaml.ScalarNode) and key.value in SETTINGS:
            notes.append(f"line {key.start_mark.line + 1}: {_note(key.value)}")
            key.value = SETTINGS[key.value]
    return notes


def _member(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if isinstance(key, yaml.ScalarNode) and key.value == name), None)


def _note(name: str) -> str:
    return f"{name} is called {SETTINGS[name]} now"
