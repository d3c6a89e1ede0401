"""The event trace of a NIC: everything that happened is in it, once, and what was off stays silent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mrc_host.verbs_types import QpType
from tests.mrc_host.nic_world import MS, Faults, World, connect
from tests.mrc_host.transport.far_end import FarEnd

Event = Mapping[str, Any]


def trace(world: World, number: int) -> list[Event]:
    events: list[Event] = []
    world.nics[number].set_trace(events.append)
    return events


def of(events: list[Event], kind: str, op: str | None = None) -> list[Event]:
    return [e for e in events if e["event"] == kind and (op is None or e["op"] == op)]


@pytest.mark.parametrize("seed", range(3))
def test_traced_sends_losses_and_retransmissions_agree_with_the_counters(seed: int) -> None:
    world = World(faults=Faults(seed=seed, loss=0.03, mark=0.05, trim=0.05))
    one, two = connect(world)
    here, there = trace(world, 0), trace(world, 1)
    one.write(two, 1 << 20)
    assert world.run(until=lambda: bool(one.poll()))
    counters = one.nic.qp_counters(one.qpn)
    writes = of(here, "send", "write")
    assert {e["qpn"] for e in writes} == {one.qpn}
    assert sum(not e["rtx"] for e in writes) == counters.data_sent
    assert sum(e["rtx"] for e in writes) == counters.retransmitted
    assert sum(e["size"] for e in writes if not e["rtx"]) == 1 << 20
    lost = of(here, "lost")
    assert len(lost) == counters.lost
    assert {e["why"] for e in lost} >= {"trimmed", "sack"}
    for event in lost:  # each names a transmission that was traced
        assert any(
            w["psn"] == event["psn"]
            and w["ev"] == event["ev"]
            and w["t"] == event["sent"]
            and w["port"] == event["plane"]
            for w in writes
        )
    assert [e["status"] for e in of(here, "completion")] == ["success"]
    received = of(there, "receive", "write")
    assert {e["qpn"] for e in received} == {two.qpn}
    assert any(e.get("trimmed") for e in received)
    assert any(e.get("ce") for e in received)
    assert any(e["mark"] == "skip_once" for e in of(here, "receive", "sack"))
    assert any(e["reason"] == "trimmed" for e in of(here, "receive", "nack"))
    times = [e["t"] for e in here]
    assert times == sorted(times)


def test_every_path_change_is_traced_with_its_reason() -> None:
    world = World(planes=2, uplinks=8, faults=Faults(seed=1, mark=0.2))
    one, two = connect(world)
    events = trace(world, 0)
    one.write(two, 1 << 19)
    world.run(2 * MS)
    world.faults.dead_paths.add((0, 3))
    one.write(two, 1 << 20)
    assert world.run(until=lambda: len(one.poll()) > 0 and len(one.done) == 2)
    changes = Counter((e["old"], e["new"], e["reason"]) for e in of(events, "path"))
    assert changes["good", "skip", "ecn"] >= changes["skip", "good", "rotation"] > 0
    assert changes["good", "assumed_bad", "loss"] + changes["skip", "assumed_bad", "loss"] == 1


def test_counters_of_each_path_add_up() -> None:
    world = World(planes=2, uplinks=8, faults=Faults(seed=2, loss=0.02, mark=0.05, trim=0.05))
    one, two = connect(world)
    events = trace(world, 0)
    one.write(two, 1 << 20)
    assert world.run(until=lambda: bool(one.poll()))
    paths = {p.ev: p for p in one.nic.qp_paths(one.qpn)}
    counters = one.nic.qp_counters(one.qpn)
    sent = Counter(e["ev"] for e in events if e["event"] == "send" and e["op"] in ("write", "probe"))
    assert {ev: p.sent for ev, p in paths.items() if p.sent} == dict(sent)
    assert sum(p.lost for p in paths.values()) == counters.lost
    assert {ev: p.lost for ev, p in paths.items() if p.lost} == dict(Counter(e["ev"] for e in of(events, "lost")))
    assert sum(p.trimmed for p in paths.values()) == sum(e["why"] == "trimmed" for e in of(events, "lost"))
    marks = [e for e in of(events, "receive", "sack") if e["mark"] == "skip_once"]
    assert sum(p.marked for p in paths.values()) == len(marks)


def test_ports_queue_pairs_errors_and_drops_are_traced() -> None:
    world = World()
    events = trace(world, 0)
    one, two = connect(world)
    assert [(e["state"], e["peer"], e["remote"]) for e in of(events, "qp")][-1] == ("rts", "n1", two.qpn)
    world.set_port(0, 1, False)
    world.run(20 * MS)
    assert [(e["port"], e["up"], e["local"]) for e in of(events, "port")] == [(1, False, True)]
    assert of(events, "send", "endpoint_request")[-1]["ports"] == 1
    one.nic.receive(0, b"\0" * 100, world.now)
    assert of(events, "drop")[-1]["reason"] == "mac"
    one.write(two, 100, rkey=1)
    assert world.run(until=lambda: bool(one.poll()))
    assert of(events, "completion")[-1]["status"] == "remote_access_error"
    assert "rkey" in of(events, "error")[-1]["reason"]
    one.nic.destroy_qp(one.qpn, world.now)
    assert of(events, "qp")[-1]["state"] == "destroyed"


def test_rc_queue_pairs_are_traced() -> None:
    world = World()
    one, two = connect(world, kind=QpType.RC)
    events = trace(world, 0)
    one.write(two, 10_000, imm=7)
    assert world.run(until=lambda: bool(one.poll()))
    assert [(e["kind"], e["size"], e["qpn"]) for e in of(events, "send", "rc_write")] == [
        ("first", 4096, one.qpn), ("middle", 4096, one.qpn), ("last_imm", 10_000 - 8192, one.qpn),
    ]  # fmt: skip
    assert of(events, "receive", "rc_ack")


def test_tracing_stops_when_turned_off_and_covers_later_queue_pairs() -> None:
    far = FarEnd()
    events: list[Event] = []
    far.nic.set_trace(events.append)
    far.write(100)
    far.data()
    assert [e["kind"] for e in of(events, "send", "write")] == ["only"]
    count = len(events)
    far.nic.set_trace(None)
    far.write(100)
    far.data()
    assert len(events) == count


def test_packets_of_unknown_shape_do_not_break_the_trace() -> None:
    """A frame may be right up to its ICRC and still name an opcode that does not exist."""
    far = FarEnd()
    events: list[Event] = []
    far.nic.set_trace(events.append)
    for opcode in range(256):
        body = bytes([opcode, 0, 0xFF, 0xFF]) + far.qpn.to_bytes(4, "big") + bytes(4)
        far.send(body)
        far.send(body + bytes(36))
    assert all(e["event"] in ("receive", "drop", "send") for e in events)
    assert far.nic.nic_counters()["drop_internal_error"] == 0


def test_every_field_is_documented() -> None:
    text = Path(__file__).parents[3].joinpath("docs", "trace.md").read_text()
    world = World(faults=Faults(seed=1, loss=0.05, mark=0.1, trim=0.1))
    one, two = connect(world)
    here, there = trace(world, 0), trace(world, 1)
    one.write(two, 1 << 20, imm=3)
    world.run(until=lambda: bool(one.poll()))
    world.set_port(0, 1, False)
    world.run(50 * MS)
    one.write(two, 100, rkey=1)
    world.run(until=lambda: len(one.poll()) > 0)
    events = [*here, *there]
    assert {e["event"] for e in events} >= {"send", "receive", "lost", "path", "completion", "port", "error"}
    assert {name for e in events for name in e} <= set(re.findall(r"`(\w+)`", text))
    values = {e[name] for e in events for name in ("event", "op", "why", "kind") if name in e}
    assert {str(v) for v in values} - {"recv_write_with_imm"} <= set(re.findall(r"\w+", text))
