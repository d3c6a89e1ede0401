"""Answers about all queue pairs of a NIC, made in parts, so that asking delays nobody.

An agent has one thread, and a NIC may have many thousand queue pairs. A verb that visits all of them gives a
:class:`LongAnswer`: an iterator each of whose steps visits a few and returns the next piece of the reply's JSON, or
nothing yet. The session takes one step a turn, and reads no further request of this client until the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mrc_common import strict_json
from mrc_host.verbs.remote.codec import to_json

PER_STEP = 16  # queue pairs


@dataclass(frozen=True, slots=True)
class LongAnswer:
    """Pieces of JSON that together are the result; an empty one means that the next is not ready yet."""

    pieces: Iterator[str]


def array(items: Iterable[Any]) -> LongAnswer:
    """The answer is a JSON array of `items`, which are made while they are taken."""
    return LongAnswer(_array(iter(items)))


def _array(items: Iterator[Any]) -> Iterator[str]:
    before = "["
    while some := list(islice(items, PER_STEP)):
        text = strict_json.dumps(to_json(some))
        yield before + text[1:-1]
        before = ","
    yield "[]" if before == "[" else "]"


def last(steps: Iterable[Any | None]) -> LongAnswer:
    """The answer is what the last of `steps` gives; the others give None."""
    return LongAnswer("" if step is None else strict_json.dumps(to_json(step)) for step in steps)
