"""Leases: an owner's faults are cleared when its client closes or crashes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller import service
from controller.client import ControllerClient
from controller.errors import ControllerError
from controller.values import Event, EventKind
from tests.controller.serving import Running
from tests.waiting import until

HOLDER = """
import sys
from controller.client import ControllerClient
with ControllerClient(sys.argv[1]) as client, client.lease("me"):
    client.link_down("h1@p0", owner="me")
    print("held", flush=True)
    sys.stdin.read()
"""


def wait_for(events: Iterator[Event], kind: EventKind) -> Event:
    return next(event for event in events if event.kind is kind)


def test_ending_a_lease_clears_only_its_owners_faults(client: ControllerClient, one: Running) -> None:
    with client.events() as events:
        with client.lease("me"):
            mine = client.link_down("h1@p0", owner="me")
            other = client.link_down("h2@p0", owner="you")
            unowned = client.link_down("h3@p0")
            later = client.inject(mine.fault, after_ns=3600 * 10**9, owner="me")
        assert {wait_for(events, EventKind.FAULT_CLEARED).name for _ in range(2)} == {mine.id, later.id}
    assert client.faults() == [other, unowned]
    assert one.links.down == {"h2@p0", "h3@p0"}


def test_killing_a_client_ends_its_lease(client: ControllerClient, one: Running, path: Path) -> None:
    with (
        client.events() as events,
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert one.links.down == {"h1@p0"}
        holder.kill()
        wait_for(events, EventKind.FAULT_CLEARED)
    assert one.links.down == set()


def test_faults_are_cleared_when_the_owners_last_lease_ends(client: ControllerClient, one: Running) -> None:
    with client.lease("me"):
        with client.lease("me"):
            client.link_down("h1@p0", owner="me")
        until(lambda: one.leases() == 1)
        assert one.links.down == {"h1@p0"}
    until(lambda: client.faults() == [])


def test_leases_need_an_owner_and_are_bounded(
    client: ControllerClient, one: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ControllerError, match="a lease needs an owner"), client.lease(""):
        pass
    monkeypatch.setattr(service, "MAX_LEASES", 2)
    both, refused = (client.lease("a"), client.lease("a")), pytest.raises(ControllerError, match="There are 2 leases")
    with both[0], both[1], refused, client.lease("b"):
        pass
    until(lambda: one.leases() == 0)
    with client.lease("b"):
        pass


def test_a_fault_that_cannot_be_cleared_at_lease_end_stays_listed(client: ControllerClient, one: Running) -> None:
    with client.lease("me"):
        client.link_down("h1@p0", owner="me")
        one.links.broken = "h1@p0"
    until(lambda: one.leases() == 0)
    assert [fault.owner for fault in client.faults()] == ["me"]
    one.links.broken = ""
    client.clear_owner("me")
    assert one.links.down == set()
