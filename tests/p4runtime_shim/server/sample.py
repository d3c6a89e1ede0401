"""programs/families.p4, a program with one of everything: ids, names, and switches that run it (fake and real)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from finsy.proto import p4i
from google.protobuf import text_format

from mrc_common.p4_match import Exact
from p4runtime_shim.entities import ActionCall, Entry
from p4runtime_shim.switch import EmbeddedSwitch, Pipeline
from tests.p4runtime_shim.server.fake_switch import FakeSwitch

PROGRAM = Path(__file__).parent / "programs" / "families.json"

DROP, SET, SET_DEFAULT, SET_ENTRY, SET_METERED = (0x01000001 + n for n in range(5))
KINDS, EXACT, LPM, INDIRECT, BY_MEMBER, CONST, KEYLESS = (0x02000001 + n for n in range(7))
SELECTOR, PROFILE = 0x11000001, 0x11000002
COUNTER, REGISTER, SIGNED, METER = 0x12000001, 0x16000001, 0x16000002, 0x14000001


@cache
def _parsed() -> p4i.P4Info:
    return text_format.Parse(PROGRAM.with_suffix(".p4info.txtpb").read_text(), p4i.P4Info())


def p4info() -> p4i.P4Info:
    """A copy that a test may change."""
    copy = p4i.P4Info()
    copy.CopyFrom(_parsed())
    return copy


DIGEST = _parsed().digests[0].preamble.id


def device_config() -> bytes:
    """The BMv2 JSON."""
    return PROGRAM.read_bytes()


def fake() -> FakeSwitch:
    """A fake that holds what the program brings along."""
    switch = FakeSwitch(bring_along)
    switch.set_pipeline("families")
    return switch


def bring_along(switch: FakeSwitch, pipeline: Any) -> None:
    """Default actions and const entries."""
    for table in ("kinds", "exact_", "lpm_", "const_", "keyless"):
        switch.control_plane.table(f"I.{table}").set_default(ActionCall("I.drop"))
    switch.control_plane.table("I.const_").insert(Entry((Exact(1),), ActionCall("I.drop")))
    switch.control_plane.table("I.const_").insert(Entry((Exact(2),), ActionCall("I.set", (2, 5))))


def real() -> EmbeddedSwitch:
    """The engine."""
    return EmbeddedSwitch(Pipeline.load(PROGRAM.read_text()), ports=(1, 2, 3), seed=1)
