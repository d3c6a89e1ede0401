"""What viewers are sent: everything at first, then changes, the newest in place of older ones."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.web import feed as feed_module
from mrc_lab.web.feed import Feed, Outbox
from mrc_lab.web.records import FabricLayout, LinkView, Problem, StateSection
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos("lab", hosts=2, planes=1, t0=2, t1=2, rate_bps=10**9)
LINKS = [link.name for link in FABRIC.links]


def make() -> Feed:
    return Feed(FabricLayout(FABRIC), clock=lambda: 1000)


def taken(outbox: Outbox) -> list[dict[str, Any]]:
    return [json.loads(record) for record in outbox.records(1000)]


def test_viewer_who_joins_gets_layout_state_and_earlier_events() -> None:
    feed = make()
    feed.put(StateSection.LINKS, LINKS[0], LinkView(False))
    feed.event("link down", LINKS[0], "", at_ms=900)
    layout, whole, event = taken(feed.join())
    assert [host[0] for host in layout["layout"]["hosts"]] == ["h1", "h2"]
    assert whole["whole"]["links"] == {LINKS[0]: [False, 0, 0]}
    assert (event["at"], event["event"][0]) == (900, "link down")


def test_slow_viewer_gets_the_newest_value_once() -> None:
    feed = make()
    outbox = feed.join()
    taken(outbox)
    for rate in range(1000):
        feed.put(StateSection.LINKS, LINKS[0], LinkView(True, rate))
    (record,) = taken(outbox)
    assert record["state"] == {"links": {LINKS[0]: [True, 999, 0]}}
    assert taken(outbox) == []


def test_equal_value_is_no_change() -> None:
    feed = make()
    feed.put(StateSection.LINKS, LINKS[0], LinkView(True, 5))
    outbox = feed.join()
    taken(outbox)
    feed.put(StateSection.LINKS, LINKS[0], LinkView(True, 5))
    feed.replace(StateSection.LINKS, {LINKS[0]: LinkView(True, 5)})
    assert taken(outbox) == []


def test_value_that_is_gone_is_sent_as_null_and_unknown_to_those_who_join_later() -> None:
    feed = make()
    feed.put(StateSection.SWITCHES, "t0-0@p0", Problem("silent"))
    outbox = feed.join()
    taken(outbox)
    feed.replace(StateSection.SWITCHES, {})
    assert taken(outbox)[0]["state"] == {"switches": {"t0-0@p0": None}}
    assert taken(feed.join())[1]["whole"]["switches"] == {}


def test_events_for_a_slow_viewer_are_bounded_and_the_loss_is_reported() -> None:
    feed = make()
    outbox = feed.join()
    taken(outbox)
    for number in range(feed_module.MAX_EVENTS + 7):
        feed.event("test", "", str(number))
    records = taken(outbox)
    assert records[0]["event"][0] == "dropped"
    assert records[0]["event"][2].startswith("7 events")
    assert [record["event"][2] for record in records[1:]] == [str(n) for n in range(7, feed_module.MAX_EVENTS + 7)]


def test_viewers_are_limited_and_leaving_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "MAX_VIEWERS", 1)
    feed = make()
    outbox = feed.join()
    with pytest.raises(ExperimentError, match="close a tab"):
        feed.join()
    feed.leave(outbox)
    feed.join()


def test_samplers_wait_while_nobody_watches() -> None:
    async def work() -> None:
        feed = make()
        waiting = asyncio.create_task(feed.watched())
        await asyncio.sleep(0)
        assert not waiting.done()
        outbox = feed.join()
        await waiting
        feed.leave(outbox)
        assert not asyncio.create_task(feed.watched()).done()

    asyncio.run(work())
