"""What the page's curves have shown, for browsers that come later."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mrc_lab.fabric.live_view import TrainingState
from mrc_lab.web import feed as feed_module
from mrc_lab.web import history as history_module
from mrc_lab.web.feed import Feed, Outbox
from mrc_lab.web.records import FabricLayout, LinkView, SignalState, State, StateSection
from tests.waiting import until_async
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos("lab", hosts=2, planes=2, t0=2, t1=2, rate_bps=10**9)


def past(outbox: Outbox) -> Any:
    """The history in what a viewer who joins gets: the third record, before the events; None if there is none."""
    records = [json.loads(record) for record in outbox.records(9000)]
    assert list(records[0])[1:] + list(records[1])[1:] == ["layout", "whole"]
    return records[2].get("history") if len(records) > 2 else None


def test_who_joins_gets_every_step_with_its_time() -> None:
    now = [1000]
    feed = Feed(FabricLayout(FABRIC), clock=lambda: now[0])
    assert past(feed.join()) is None
    early = feed.join()
    early.records(1000)
    for step in (1, 2):
        feed.put(StateSection.TRAINING, "roce", TrainingState(step, 40, 2.5, 350.0))
        now[0] += 350
    feed.put(StateSection.TRAINING, "mrc", TrainingState(1, 40, None, 190.0))
    feed.event("link down", "h1@p0", "")
    assert past(feed.join())["steps"] == [
        [1000, "roce", [1, 40, 2.5, 350.0]],
        [1350, "roce", [2, 40, 2.5, 350.0]],
        [1700, "mrc", [1, 40, None, 190.0]],
    ]
    (new, _state, _event) = map(json.loads, early.records(1700))
    assert new["steps"] == past(feed.join())["steps"], "who was there gets each of them too, none in place of another"


def test_steps_for_a_viewer_who_takes_nothing_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "MAX_STEPS", 3)
    feed = Feed(FabricLayout(FABRIC), clock=lambda: 1000)
    outbox = feed.join()
    outbox.records(1000)
    for step in range(1, 10):
        feed.put(StateSection.TRAINING, "mrc", TrainingState(step, 40, 1.0, 1.0))
    assert [step[2][0] for step in json.loads(outbox.records(1000)[0])["steps"]] == [7, 8, 9]


def test_sums_over_hosts_and_switches_are_kept_by_plane() -> None:
    feed = Feed(FabricLayout(FABRIC), clock=lambda: 5000)
    history = history_module.History(FABRIC)
    links = {"h1@p0": LinkView(True, 1, 20), "h2@p0": LinkView(True, 2, 30), "h2@p1": LinkView(True, 4, 7),
             "t0-0:t1-0@p1": LinkView(True, 999, 999)}  # fmt: skip
    signals = {"h1@p0": SignalState(1, 2, 3), "t0-0:t1-0@p1": SignalState(10, 20, 30)}
    history.point(5000, {StateSection.LINKS: links, StateSection.SIGNALS: signals})
    record = history.record(6000)
    assert record is not None
    assert json.loads(record) == {"at": 6000, "history": {"steps": [], "points": [[5000, 50, 7, 11, 22, 33]]}}
    assert feed.viewers == 0


def test_points_are_kept_only_while_somebody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "HISTORY_PERIOD_S", 0.001)

    async def work() -> None:
        feed = Feed(FabricLayout(FABRIC), clock=lambda: 5000)
        task = asyncio.create_task(feed.keep_history())
        await asyncio.sleep(0)
        assert past(feed.join()) is None
        first = feed.join()
        await until_async(lambda: past(feed.join()) is not None, "a point")
        assert past(feed.join())["points"][0][0] == 5000
        feed.leave(first)
        task.cancel()

    asyncio.run(work())


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "MAX_STEPS", 3)
    monkeypatch.setattr(history_module, "MAX_POINTS", 2)
    history = history_module.History(FABRIC)
    nothing: State = {StateSection.LINKS: {}, StateSection.SIGNALS: {}}
    for number in range(9):
        history.step(history_module.TrainingStep(number, "mrc", TrainingState(number, 40, 1.0, 1.0)))
        history.point(number, nothing)
    record = history.record(9)
    assert record is not None
    found = json.loads(record)["history"]
    assert [step[0] for step in found["steps"]] == [6, 7, 8]
    assert [point[0] for point in found["points"]] == [7, 8]
