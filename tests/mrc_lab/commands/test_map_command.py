"""``mrc map``: its output and its errors."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from controller.path_map.values import LinkHealth, MapState, SlowPort
from mrc_lab.cli.main import run
from mrc_lab.commands.map_command import execute
from mrc_lab.errors import ExperimentError
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos()


class Controller:
    """A map that is old enough, or none; remembers what is asked."""

    def __init__(self, running: bool, *, feeding: bool = False) -> None:
        self.state = MapState(running, 5.0, 0.1, 100.0, feeding=feeding)
        self.asked: list[Any] = []

    def path_map(self) -> MapState:
        return self.state

    def start_map(self, rate: float = 0.0, *, feed: bool = False) -> MapState:
        self.asked.append((rate, feed))
        self.state = MapState(True, rate or 10.0, 0.1, 100.0, feeding=feed)
        return self.state

    def stop_map(self) -> MapState:
        self.asked.append("stop")
        return MapState(False)


@pytest.mark.parametrize(
    ("words", "running", "asked", "printed"),
    [
        ("", False, (0.0, False), "no probes are judged yet"),
        ("", True, (5.0, True), "path map of demo: 5 probes/s"),
        ("0", True, (5.0, True), "no probes are judged yet"),
        ("rate 20", True, (20.0, True), "20 times per second"),
        ("deny", False, (0.0, True), "are denied"),
        ("allow", True, (5.0, False), "allowed again"),
        ("stop", True, "stop", "is stopped"),
        ("stop", False, "stop", "no path map was running"),
    ],
)
def test_words_are_parsed_as_commands(words: str, running: bool, asked: Any, printed: str) -> None:
    controller, printed_lines = Controller(running, feeding=running), []
    execute(controller, FABRIC, words.split(), printed_lines.append)  # type: ignore[arg-type]
    assert controller.asked == [asked]
    assert printed in "\n".join(printed_lines)


@pytest.mark.parametrize("words", ["nonsense", "rate", "rate fast", "deny h1", "-3", "3 4", "stop --json"])
def test_invalid_words_are_refused_with_an_example(words: str) -> None:
    controller = Controller(True)
    with pytest.raises(ExperimentError, match="use it like this: map"):
        execute(controller, FABRIC, words.split(), print)  # type: ignore[arg-type]
    assert controller.asked == []


def test_the_map_as_json_is_printed_once() -> None:
    controller, printed = Controller(True), []
    controller.state = replace(controller.state, links=(LinkHealth("h1@p0", 50, 1),))
    controller.start_map = lambda *_, **__: controller.state  # type: ignore[method-assign]
    execute(controller, FABRIC, ["0.01", "--json"], printed.append)  # type: ignore[arg-type]
    ((row,),) = map(json.loads, printed)
    assert (row["element"], row["probes_sent"], row["probes_lost"], row["suspected"]) == ("h1@p0", 50, 1, False)


def test_the_map_as_json_lists_slow_ports_whether_or_not_their_link_was_probed() -> None:
    controller, printed = Controller(True), []
    slow = SlowPort("h1@p0", True, 0), SlowPort("h2@p1", False, 3)
    controller.state = replace(controller.state, links=(LinkHealth("h1@p0", 50, 1),), slow_ports=slow)
    controller.start_map = lambda *_, **__: controller.state  # type: ignore[method-assign]
    execute(controller, FABRIC, ["--json"], printed.append)  # type: ignore[arg-type]
    (rows,) = map(json.loads, printed)
    assert [(row["element"], row["probes_sent"], row["slow"], row["slow_peers"]) for row in rows] == [
        ("h1@p0", 50, True, 0), ("h2@p1", None, False, 3),
    ]  # fmt: skip


def test_a_fabric_that_is_not_running_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["map", "--fabric", "nosuch"]) == 3
    assert "Fabric nosuch is not up" in capsys.readouterr().err
