"""Keys and metrics of experiment files that have another name now: the old one is still understood, with a note.

They are replaced while a document is read, before variants are laid over it, so nothing else knows the old names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

METRICS: Mapping[str, str] = MappingProxyType(
    {
        "bypass_time": "failover_time",
        "interruption": "outage",
        "paths_left": "path_failures",
        "return_time": "recovery_time",
    }
)
"""Old metrics, with today's."""

_LISTS: Mapping[str, str] = MappingProxyType({"show": "report"})  # of a whole file
_EXPECTATION: Mapping[str, str] = MappingProxyType({"world": "backend"})
_SECTION = ("transport", "settings")


def replace_old_keys(document: yaml.Node) -> tuple[str, ...]:
    """Give renamed keys of a whole file, and of its variants, their names of today; notes, one for each key."""
    notes = _replace_in(document)
    for name in ("variants", "axis"):
        parts = _member(document, name)
        if isinstance(parts, yaml.SequenceNode):
            for part in parts.value:
                notes += _replace_in(part)
    return (*notes, *_replace_metrics(document))


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
    return list(_rename_keys(settings, SETTINGS))


def _replace_metrics(document: yaml.Node) -> Iterator[str]:
    """Old metrics, and old keys beside them."""
    yield from _rename_keys(document, _LISTS)
    for name, keys in (("expect", _EXPECTATION), ("report", {})):
        found = _member(document, name)
        for each in found.value if isinstance(found, yaml.SequenceNode) else ():
            yield from _rename_keys(each, keys)
            metric = _member(each, "metric")
            if metric is not None:
                yield from _rename(metric, METRICS)


def _rename_keys(node: yaml.Node | None, names: Mapping[str, str]) -> Iterator[str]:
    for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        yield from _rename(key, names)


def _rename(scalar: yaml.Node, names: Mapping[str, str]) -> Iterator[str]:
    """Give a scalar with an old name today's, and say so."""
    if isinstance(scalar, yaml.ScalarNode) and scalar.value in names:
        yield f"line {scalar.start_mark.line + 1}: {_note(scalar.value, names)}"
        scalar.value = names[scalar.value]


def _member(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if isinstance(key, yaml.ScalarNode) and key.value == name), None)


def _note(name: str, names: Mapping[str, str] = SETTINGS) -> str:
    return f"{name} is called {names[name]} now"
