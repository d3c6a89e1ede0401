"""Read JSON lines one at a time, with an error that names the line of whatever is not as expected.

A trace may still be growing, so an incomplete last line is left out. A line is limited in length, so that a foreign
file without line breaks does not fill the memory.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from mrc_common import named_files, strict_json
from mrc_lab.errors import ExperimentError

_LINE_LIMIT: Final = 1 << 20
Event = dict[str, Any]


@contextlib.contextmanager
def naming_line(path: Path, number: int, what: str) -> Iterator[None]:
    """What a value of the wrong kind causes in here becomes an ExperimentError that names the line."""
    try:
        yield
    except KeyError as error:
        raise ExperimentError(f"{path}, line {number}: not {what}: it has no {error}") from None
    except (TypeError, ValueError, OverflowError, RecursionError, AttributeError) as error:
        raise ExperimentError(f"{path}, line {number}: not {what}: {str(error).splitlines()[0]}") from None


def lines(path: Path, read: Callable[[int], None] = lambda size: None) -> Iterator[tuple[int, Event]]:
    """The objects of a file of JSON lines, each with the number of its line. ExperimentError if it is not one."""
    try:
        with named_files.open_file(path, sys.maxsize) as file:
            number = 0
            while line := file.readline(_LINE_LIMIT):
                number += 1
                read(len(line))
                if not line.endswith(b"\n"):
                    if len(line) < _LINE_LIMIT and number > 1:
                        return
                    raise ExperimentError(f"{path}, line {number}: not a line of JSON")
                with naming_line(path, number, "a line of JSON"):
                    event = strict_json.loads(line)
                    if not isinstance(event, dict):
                        raise ValueError("it is not an object")
                yield number, event
    except OSError as error:
        raise ExperimentError(f"{path} cannot be read: {error.strerror}") from None


def events(path: Path, read: Callable[[int], None] = lambda size: None) -> Iterator[tuple[int, Event]]:
    """The events of an event trace (docs/trace.md), each with the number of its line; `read` gets bytes as read."""
    for number, event in lines(path, read):
        with naming_line(path, number, "an event of a trace"):
            if "event" not in event or not is_time(event.get("t")):
                raise ValueError("an event has a time t, in ns, and a name event")
        yield number, event


def is_time(value: object) -> bool:
    """Whether a value of the input can be a time in ns."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
