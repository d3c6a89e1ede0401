"""Completion of `fault` commands, for the prompt and for shells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mrc_common.declared.sections import SectionKey
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.faults import KINDS, BackendKind, FaultKind
from topologies.faults.parameters import FaultPlace, is_flag, place_of
from topologies.name_patterns import matches

OPTIONS = {"at": ("+2s",), "for": ("500ms", "10s"), "owner": ()}
_KINDS = tuple(kind for kind in KINDS.values() if BackendKind.EMULATION in kind.backends)


def kind_of_word(word: str) -> FaultKind | None:
    """The kind with this keyword, name or former name."""
    return next((kind for kind in KINDS.values() if word in kind.names()), None)


def next_words(fabric: Fabric, before: Sequence[str], ids: Sequence[str] = ()) -> list[str]:
    """Words that may follow `before`, the words after `fault`; `ids` are those of the existing faults."""
    words = list(before)
    if words[:1] == ["add"]:
        words = words[1:]
    if not words:
        places = [name for place in (FaultPlace.LINK, FaultPlace.SWITCH) for name in _names(fabric, place)]
        free = [kind.word for kind in _KINDS if kind.target is None]
        return [*places, *free, *(() if before else ("add", "kinds", "list", "clear"))]
    first, *more = words
    if first == "list":
        return [word for word in ("all", "--json") if word not in more]
    if first == "clear":
        return _to_clear(fabric, more, ids)
    if first == "kinds" or more == ["up"]:
        return []
    if more and words[-1] in OPTIONS:
        return list(OPTIONS[words[-1]])
    kind = kind_of_word(first)
    if kind is None or kind.target is not None:
        if not more:
            return _words_at(fabric, first)
        kind = kind_of_word(more[0])
        more = more[1:]
    return _parameters(fabric, kind, first, more) if kind else []


def _to_clear(fabric: Fabric, more: Sequence[str], ids: Sequence[str]) -> list[str]:
    if more[:1] == ["link"]:
        return _names(fabric, FaultPlace.LINK) if len(more) == 1 else []
    if more[:1] in (["all"], ["owner"]):
        return []
    return [*(name for name in ids if name not in more), *(() if more else ("all", "owner", "link"))]


def _words_at(fabric: Fabric, place: str) -> list[str]:
    """Keywords of the kinds of fault that a place can have; of all kinds if there is no such place."""
    fitting = [
        kind for kind in (FaultPlace.LINK, FaultPlace.SWITCH, FaultPlace.NODE) if _matches(_names(fabric, kind), place)
    ]
    kinds = [kind for kind in _KINDS if kind.target and (not fitting or place_of(kind.target.type) in fitting)]
    return [*(kind.word for kind in kinds), *(() if fitting and FaultPlace.LINK not in fitting else ("up",))]


def _parameters(fabric: Fabric, kind: FaultKind, place: str, words: Sequence[str]) -> list[str]:
    """Words that may follow a kind's keyword and the `words` after it."""
    left = list(kind.further)
    for word in words:
        if word in OPTIONS:
            left = []
        flags = (at for at, parameter in enumerate(left) if is_flag(parameter.type) and parameter.name == word)
        del left[: next(flags, 0) + 1]
    found: dict[str, None] = {}
    for number, parameter in enumerate(left):
        if number == 0 or is_flag(parameter.type):
            found |= dict.fromkeys(_values(fabric, parameter, place))
        if parameter.required:
            return list(found)
    return [*found, *(option for option in OPTIONS if option not in words)]


def _values(fabric: Fabric, parameter: SectionKey, place: str) -> Iterable[str]:
    """Values for a parameter: names of the fabric, or examples."""
    if is_flag(parameter.type):
        return [parameter.name]
    named = place_of(parameter.type)
    if named is FaultPlace.TOWARDS:
        links = [link for link in fabric.links if _matches([link.name], place)]
        return dict.fromkeys(end.node for link in links for end in (link.lower, link.upper))
    return _names(fabric, named) if named else parameter.examples


def _names(fabric: Fabric, place: FaultPlace) -> list[str]:
    switches = [switch.name for switch in fabric.switches]
    return {
        FaultPlace.LINK: [link.name for link in fabric.links],
        FaultPlace.SWITCH: switches,
        FaultPlace.HOST: list(fabric.nic_names),
        FaultPlace.NODE: [*switches, *fabric.nic_names],
    }.get(place, [])


def _matches(names: Iterable[str], pattern: str) -> bool:
    try:
        return any(matches(name, pattern) for name in names)
    except FabricError:  # it is still being typed
        return False
