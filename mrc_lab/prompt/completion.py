"""Completion: what may come where, from the table of commands and the fabric's names.

Words are separated by blanks only, so that a link's name is one word.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mrc_lab.command_table import FLAG_COMPLETION, load
from mrc_lab.commands.fault_completion import next_words
from mrc_lab.prompt.command_help import COMMANDS, Word

if TYPE_CHECKING:
    from topologies.fabric import Fabric

DELIMITERS = " \t\n"


def first_word(fabric: Fabric, text: str) -> list[str]:
    """Commands and nodes."""
    return _beginning(text, (*(name for name in COMMANDS if name != "EOF"), *nodes(fabric)))


def further_word(fabric: Fabric, tables: Sequence[str], before: Sequence[str], text: str) -> list[str]:
    """What may follow the words `before`, of which the first is a command or a node; `text` is what is there of it."""
    entry = COMMANDS.get(before[0])
    if entry is None:  # a node: its command may name others, and files
        return [*_beginning(text, nodes(fabric)), *files(text)]
    if not entry.words:
        return []
    if entry.name == "capture" and before[1:2] == ["stop"]:
        return links(fabric, text)
    if entry.name == "time" and len(before) > 1:
        return further_word(fabric, tables, before[1:], text)
    word = entry.words[min(len(before), len(entry.words)) - 1]
    if entry.words[-1] is Word.FLAGS and (word is Word.FLAGS or text.startswith("-")):
        return flag(fabric, entry.name, before[-1], text)
    if isinstance(word, tuple):
        return _beginning(text, word) if len(before) <= len(entry.words) else []
    if word is Word.LINK:
        found = links(fabric, text)
        return [*found, *_beginning(text, ("stop",))] if entry.name == "capture" else found
    if word is Word.FAULT:
        return fault(fabric, before[1:], text)
    if word is Word.FILE:
        return files(text)
    if word is Word.COMMAND:
        return first_word(fabric, text)
    names: dict[Word, Iterable[str]] = {
        Word.HOST: fabric.nic_names,
        Word.SWITCH: [switch.name for switch in fabric.switches],
        Word.NODE: nodes(fabric),
        Word.TABLE: tables,
    }
    return _beginning(text, names.get(word, ()))


def nodes(fabric: Fabric) -> list[str]:
    """Hosts and switches."""
    return [*fabric.nic_names, *(switch.name for switch in fabric.switches)]


def links(fabric: Fabric, text: str) -> list[str]:
    """Links; once there is a star in the word, patterns for several of them."""
    if "*" not in text:
        return _beginning(text, (link.name for link in fabric.links))
    patterns: dict[str, None] = {}
    for link in fabric.links:
        ends, _, plane = link.name.partition("@")
        lower, colon, upper = ends.partition(":")
        some = (lower, f"{lower.rstrip('0123456789')}*")
        for one in some:
            for other in (upper, f"{upper.rstrip('0123456789')}*") if colon else ("",):
                patterns |= dict.fromkeys((f"{one}{colon}{other}@{plane}", f"{one}{colon}{other}@p*"))
    return _beginning(text, (pattern for pattern in patterns if "*" in pattern))


def switches(fabric: Fabric, text: str) -> list[str]:
    """Switches; once there is a star in the word, patterns for several of them."""
    names = [switch.name for switch in fabric.switches]
    if "*" in text:
        planes = [f"p{plane}" for plane in range(fabric.planes)]
        names = [f"{tier}-*@{plane}" for tier in ("t0", "t1") for plane in (*planes, "p*")]
    return _beginning(text, names)


def fault(fabric: Fabric, before: Sequence[str], text: str) -> list[str]:
    """Words of `fault`; patterns for what is hurt once there is a star in the word."""
    if "*" in text and list(before) in ([], ["add"]):
        return [*links(fabric, text), *switches(fabric, text)]
    return _beginning(text, next_words(fabric, before))


def flag(fabric: Fabric, tool: str, before: str, text: str) -> list[str]:
    """Flags of a performance tool, or values of the flag `before`."""
    words = load(FLAG_COMPLETION)(tool, before, list(fabric.nic_names), text)
    return files(text) if words is None else _beginning(text, words)


def files(text: str) -> list[str]:
    """Files and folders."""
    found = glob.glob(glob.escape(os.path.expanduser(text)) + "*")
    return sorted(f"{path}/" if os.path.isdir(path) else path for path in found)


def _beginning(text: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(text)]
