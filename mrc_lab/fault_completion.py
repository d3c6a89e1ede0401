"""What may come next after some words of `fault`, for the prompt's completion and the shell's."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from topologies.fabric import Fabric

LINK_VERBS = ("down", "up", "loss", "corrupt", "rate", "delay", "flap")
SWITCH_VERBS = ("silent", "dead")
OPTIONS = ("at", "for", "owner")
_FIGURES = {
    "loss": ("1%", "10%", "100%"), "corrupt": ("0.1%", "1%"), "rate": ("1M", "10M"), "delay": ("1ms", "10ms"),
    "flap": ("1s", "2s"),
}  # fmt: skip
_AFTER_OPTION = {"at": ("+2s",), "for": ("500ms", "10s"), "owner": ()}


def next_words(fabric: Fabric, before: Sequence[str], ids: Sequence[str] = ()) -> list[str]:
    """Words that may follow `before`, which begins behind `fault`; `ids` are those of the faults that there are."""
    words = list(before)
    if words[:1] == ["add"]:
        words = words[1:]
    if not words:
        targets = [link.name for link in fabric.links] + [switch.name for switch in fabric.switches]
        return [*targets, "path", *(() if before else ("add", "list", "clear"))]
    first, *more = words
    if first == "list":
        return [] if more else ["all"]
    if first == "clear":
        return _to_clear(fabric, more, ids)
    if more and words[-1] in OPTIONS:
        return list(_AFTER_OPTION[words[-1]])
    if first == "path":
        return _on_path(fabric, more)
    if not more:
        is_switch = any(fnmatchcase(switch.name, first) for switch in fabric.switches)
        is_link = any(fnmatchcase(link.name, first) for link in fabric.links)
        return [*(LINK_VERBS if is_link or not is_switch else ()), *(SWITCH_VERBS if is_switch or not is_link else ())]
    return _to_add(fabric, first, more)


def _to_clear(fabric: Fabric, more: Sequence[str], ids: Sequence[str]) -> list[str]:
    if more[:1] == ["link"]:
        return [link.name for link in fabric.links] if len(more) == 1 else []
    if more[:1] in (["all"], ["owner"]):
        return []
    return [*(name for name in ids if name not in more), *(() if more else ("all", "owner", "link"))]


def _on_path(fabric: Fabric, more: Sequence[str]) -> list[str]:
    if not more:
        return []
    if len(more) == 1:
        return ["100%", "10%", *OPTIONS]
    return [*(fabric.nic_names if len(more) < 4 else ()), *_options_left(more)]


def _to_add(fabric: Fabric, target: str, more: Sequence[str]) -> list[str]:
    verb, *figures = more
    if verb == "up":
        return []
    if verb in _FIGURES and not figures:
        return list(_FIGURES[verb])
    found: list[str] = []
    if verb == "flap" and "random" not in figures:
        found += ["25%", "50%", "random"] if len(figures) == 1 else ["random"]
    elif verb not in SWITCH_VERBS and verb != "flap" and len(figures) == (verb in _FIGURES):
        links = [link for link in fabric.links if fnmatchcase(link.name, target)]
        found += dict.fromkeys(end.node for link in links for end in (link.lower, link.upper))
    return [*found, *_options_left(figures)]


def _options_left(words: Sequence[str]) -> list[str]:
    return [option for option in OPTIONS if option not in words]
