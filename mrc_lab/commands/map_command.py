"""The command `map` of the prompt, and the display of the path map there and by ``mrc map``.

map [SECONDS]      start the map if there is none; show it once, or refresh it for some seconds
map --json         the same as JSON, once, after SECONDS if they are given
map rate NUMBER    set the probes per second on every link in each direction
map deny|allow     whether hosts stop using paths over suspected faults
map stop           stop probing
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from controller.path_map.client import PathMapClient
from controller.path_map.render import draw
from controller.path_map.values import MapState
from mrc_lab.commands.listing import wanted_as_json
from mrc_lab.commands.map_listing import MAP, elements
from mrc_lab.errors import ExperimentError
from topologies.fabric import Fabric

EXAMPLE = "map, map 30, map --json, map rate 20, map deny, map allow, map stop"
_VERBS = ("rate", "deny", "allow", "stop")
_FIRST_ROUNDS, _FIRST_S = 2.0, 1.0  # after which every path has been probed and judged
_REFRESH_S = 1.0


def execute(controller: PathMapClient, fabric: Fabric, words: Sequence[str], echo: Callable[[str], None]) -> None:
    """Execute the words after `map` and print the result. Raises ExperimentError if they are no valid command."""
    words, as_json = wanted_as_json(words)
    state = controller.path_map()
    rate = state.rate if state.running else 0.0
    verb, *more = words or ("0",)
    if len(more) != (verb == "rate") or (as_json and verb in _VERBS):
        raise ExperimentError(f"use it like this: {EXAMPLE}")
    if verb == "stop":
        controller.stop_map()
        echo("the path map is stopped" if state.running else "no path map was running")
    elif verb in ("deny", "allow"):
        controller.start_map(rate, feed=verb == "deny")
        echo("paths over suspected faults are denied" if verb == "deny" else "what the map denied is allowed again")
    elif verb == "rate":
        controller.start_map(_number(more[0]), feed=state.feeding)
        echo(f"every link is probed {_number(more[0]):g} times per second in each direction")
    else:
        seconds = _number(verb)
        controller.start_map(rate, feed=state.feeding)
        watch(controller, fabric, seconds, echo, as_json=as_json)


def watch(
    controller: PathMapClient, fabric: Fabric, seconds: float, echo: Callable[[str], None], *, as_json: bool = False
) -> MapState:
    """Print the map as soon as it has results, then every second for `seconds`; returns the last state.

    As JSON it is printed once, at the end.
    """
    state = controller.path_map()
    while state.running and state.seconds < _FIRST_S + _FIRST_ROUNDS * state.round_seconds:
        time.sleep(0.1)
        state = controller.path_map()
    until = time.monotonic() + seconds
    while True:
        left = until - time.monotonic()
        if as_json and left <= 0:
            echo(MAP.json(elements(fabric, state)))
        elif not as_json:
            echo(draw(fabric, state))
        if left <= 0:
            return state
        time.sleep(min(_REFRESH_S, left))
        state = controller.path_map()


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ExperimentError(f"{text!r} is not a number; use it like this: {EXAMPLE}") from None
    if not 0 <= value < 1e6:
        raise ExperimentError(f"{text} is out of range; use it like this: {EXAMPLE}")
    return value
