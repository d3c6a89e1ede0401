"""The trace of packets and the messages of the program."""

from __future__ import annotations

import os

import pytest

from mrc_common.p4_match import Lpm
from p4runtime_shim.entities import ActionCall, CloneSession, Entry, Replica
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import programs
from tests.p4runtime_shim.builder import Builder, call, send_to

P = "MyIngress."


def test_a_packet_is_traced_from_arrival_to_departure() -> None:
    frame = bytes(12) + bytes.fromhex("08004500001412340000401154a30a0000010a000002")
    with EmbeddedSwitch(programs.pipeline("forward"), ports=range(4), seed=0) as switch:
        forward = ActionCall(P + "forward", (2, 5))
        switch.control_plane.table(P + "route").insert(Entry((Lpm(0x0A000000, 8),), forward))
        switch.receive(1, frame, 5)
        assert switch.take_log() == []
        switch.transmit(2, 6)
        event = os.eventfd(0, os.EFD_NONBLOCK)
        try:
            switch.set_logging(trace=True, event=event)
            switch.receive(1, frame, 7)
            switch.transmit(2, 9)
            assert os.eventfd_read(event) > 0
        finally:
            switch.set_logging(event=-1)
            os.close(event)
        lines = switch.take_log()
    texts = [line.text for line in lines]
    assert texts[0] == "packet 2: arrived on port 1, 34 bytes"
    assert "packet 2: parser state ipv4 at byte 14" in texts
    assert (
        "packet 2: table MyIngress.route: hit, key dst=0xa000002, entry dst=0xa000000&&&0xff000000 priority 8"
    ) in texts
    assert "packet 2: action MyIngress.forward(port=0x2, mac=0x5)" in texts
    assert "packet 2: queued for port 2, priority 0, behind 0 packets" in texts
    assert texts[-1] == "packet 2: leaves port 2, 34 bytes"
    assert (lines[0].time, lines[-1].time) == (7, 9)


def test_copies_and_drops_are_logged() -> None:
    with EmbeddedSwitch(programs.pipeline("copies"), ports=range(8), seed=0) as switch:
        switch.control_plane.replication.session_set(5, CloneSession((Replica(4),)))
        switch.set_logging(trace=True)
        switch.receive(3, bytes([1, 200]) + bytes(10), 0)
        texts = [line.text for line in switch.take_log()]
    assert "packet 1: cloned at ingress as packet 2" in texts
    assert "packet 1: dropped: sent to or received from a port that does not exist" in texts


def test_log_records_are_bounded() -> None:
    with EmbeddedSwitch(programs.pipeline("copies"), ports=range(8), seed=0) as switch:
        switch.set_logging(trace=True)
        for _ in range(4000):
            switch.receive(3, bytes([7, 1]) + bytes(10), 0)
            switch.transmit(1, 0)
        assert len(switch.take_log()) == 16384
        assert switch.log_lost() > 0


@pytest.mark.parametrize("values", [{"value": {}}, {"value": []}, {"value": None}, {}])
def test_messages_without_values_are_logged(values: dict[str, object]) -> None:
    """p4c writes an empty object where log_msg("text") has no values (ExternConverter_log_msg)."""
    builder = Builder()
    message = {"type": "string", "value": "hello, {}"}
    builder.run(builder.action("say", [call("log_msg", message, {"type": "parameters_vector", **values}), send_to(1)]))
    with EmbeddedSwitch(Pipeline.load(builder.text()), ports=[0, 1], seed=0) as switch:
        switch.set_logging()
        switch.receive(0, b"x", 0)
        assert [line.text for line in switch.take_log()] == ["hello, {}"]
