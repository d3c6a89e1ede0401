"""Subscribers of events: room, what is lost, and how many there may be."""

from __future__ import annotations

import asyncio

import pytest

from controller import events as module
from controller.errors import BusyError
from controller.events import Events, Subscription
from controller.values import Event, EventKind


def make(room: int = 4) -> Events:
    return Events(room=room, clock=lambda: 7)


async def take(subscription: Subscription, count: int) -> list[Event]:
    return [await subscription.next() for _ in range(count)]


def test_a_subscriber_receives_a_greeting_and_then_the_events() -> None:
    events = make()
    events.publish(EventKind.LINK_DOWN, "before")
    subscription = events.subscribe()
    events.publish(EventKind.LINK_DOWN, "a", "why")
    found = asyncio.run(take(subscription, 2))
    assert found == [Event(1, 7, EventKind.SUBSCRIBED), Event(2, 7, EventKind.LINK_DOWN, "a", "why")]


def test_a_slow_subscriber_loses_the_newest_events_and_gets_their_number_and_others_lose_none() -> None:
    events = make(room=4)
    slow, quick = events.subscribe(), events.subscribe()
    asyncio.run(take(quick, 1))
    for number in range(10):
        events.publish(EventKind.LINK_UP, str(number))
        assert asyncio.run(take(quick, 1))[0].dropped == 0
    found = asyncio.run(take(slow, 4))
    assert [event.name for event in found] == ["", "0", "1", "2"]
    assert {event.dropped for event in found} == {7}
    events.publish(EventKind.LINK_UP, "later")
    (event,) = asyncio.run(take(slow, 1))
    assert (event.name, event.dropped, event.number) == ("later", 7, 11)


def test_reading_waits_for_the_next_event() -> None:
    async def wait() -> Event:
        events = make()
        subscription = events.subscribe()
        await subscription.next()
        reader = asyncio.create_task(subscription.next())
        await asyncio.sleep(0)
        assert not reader.done()
        events.publish(EventKind.LINK_UP, "x")
        return await reader

    assert asyncio.run(wait()).name == "x"


def test_unsubscribing_stops_events_and_frees_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SUBSCRIBERS", 2)
    events = make()
    first, _second = events.subscribe(), events.subscribe()
    with pytest.raises(BusyError, match="There are 2 subscribers of events already"):
        events.subscribe()
    events.unsubscribe(first)
    events.unsubscribe(first)
    events.subscribe()
    for number in range(100):
        events.publish(EventKind.LINK_UP, str(number))
    assert asyncio.run(take(first, 1))[0].dropped == 0
