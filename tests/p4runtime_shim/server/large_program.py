"""A switch with arrays of any size, for the tests of limits."""

from __future__ import annotations

from finsy.proto import p4i

from p4runtime_shim.switch import EmbeddedSwitch, Pipeline
from tests.p4runtime_shim.builder import Builder


def large(size: int) -> tuple[EmbeddedSwitch, p4i.P4Info, str]:
    """A switch, its P4Info and JSON, with a counter, a meter and a register of so many cells."""
    made = Builder()
    made.data["counter_arrays"] = [{"name": "c", "id": 0, "is_direct": False, "size": size}]
    made.data["register_arrays"] = [{"name": "r", "id": 0, "bitwidth": 48, "size": size}]
    meter = {"name": "m", "id": 0, "is_direct": False, "rate_count": 2, "type": "bytes", "size": min(size, 1 << 20)}
    made.data["meter_arrays"] = [meter]
    info = p4i.P4Info()
    info.counters.add(size=size).preamble.MergeFrom(p4i.Preamble(id=1, name="c"))
    info.registers.add(size=size).preamble.MergeFrom(p4i.Preamble(id=2, name="r"))
    info.registers[0].type_spec.bitstring.bit.bitwidth = 48
    info.meters.add(size=meter["size"]).preamble.MergeFrom(p4i.Preamble(id=3, name="m"))
    return EmbeddedSwitch(Pipeline.load(made.text()), ports=(1, 2), seed=1), info, made.text()
