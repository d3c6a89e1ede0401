"""P4Info as finsy takes it: it refuses programs with two names that end alike, where P4Runtime allows them.

Nothing but those names and ``@format`` differs from the program's own P4Info, so switches take it as that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from finsy.proto import p4i
from google.protobuf import text_format

from mrc_common.p4_names import suffixes


def read_p4info(text: str) -> p4i.P4Info:
    """P4Info from protobuf's text; text_format.ParseError if it is none."""
    p4info = text_format.Parse(text, p4i.P4Info())
    for table in p4info.tables:
        _distinguish(table.match_fields)
        for field in table.match_fields:
            _plain(field)
    for value_set in p4info.value_sets:
        _distinguish(value_set.match)
    for action in p4info.actions:
        _shorten(action.preamble)
        for param in action.params:
            _plain(param)
    return p4info


def _distinguish(fields: Sequence[Any]) -> None:
    """Finsy knows the fields of a key by the last part of their names: ``h.eth.src`` becomes ``eth_src`` if need be."""
    count = Counter(_last(field.name) for field in fields)
    taken = {name for name, times in count.items() if times == 1}
    for field in fields:
        if count[_last(field.name)] > 1:
            possible = (name for name in _joined(field) if name not in taken and _alone(name, field, fields))
            field.name = next(possible, f"field_{field.id}")
            taken.add(field.name)


def _joined(field: Any) -> Iterable[str]:
    return [suffix.replace(".", "_") for suffix in suffixes(field.name) if "." in suffix]


def _alone(name: str, field: Any, fields: Sequence[Any]) -> bool:
    """Whether no other field might be called so."""
    return all(name not in _joined(other) for other in fields if other.id != field.id)


def _shorten(preamble: Any) -> None:
    """Finsy fails at an alias that is the whole name if it has more than two parts: it gets two."""
    if preamble.alias == preamble.name and preamble.name.count(".") > 1:
        control, _, action = preamble.name.rpartition(".")
        preamble.alias = f"{control.replace('.', '_')}.{action}"


def _plain(value: Any) -> None:
    """Finsy decodes what is annotated as an address to an address, or a network; it is to be a number like all."""
    kept = [text for text in value.annotations if not text.startswith("@format")]
    del value.annotations[:]
    value.annotations.extend(kept)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
