"""What simulated switches have counted, as the controller and the switches' own service tell it in emulation.

So that reports of both backends are made by the same functions (`switch_counters`) and read alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.inspection import DROP_REASONS, PORT_COUNTERS, port_drop
from controller.values import Count, PortCounters, SwitchCounters
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.switch import Switch
from p4runtime_shim.traffic_manager import PortStats
from simulation.world import SimulatedWorld


def counted(world: SimulatedWorld) -> Iterator[SwitchCounters]:
    """By the P4 program, of every switch."""
    for description in world.fabric.switches:
        switch = world.switch(description.name)
        full = _counters(switch)
        ports = []
        for port in description.ports:
            counts = [_count(switch, full[name], port, name) for name in PORT_COUNTERS]
            for reason, words in enumerate(DROP_REASONS[1:], 1):
                counts.append(_count(switch, full["port_drops"], port_drop(port, reason), words))
            ports.append(PortCounters(port, "", tuple(counts)))
        reasons = (_count(switch, full["drop_reasons"], cell, words) for cell, words in enumerate(DROP_REASONS[1:], 1))
        yield SwitchCounters(description.name, tuple(reasons), tuple(ports))


def told(world: SimulatedWorld) -> Iterator[pb.Switch]:
    """By the traffic managers, of every switch."""
    for description in world.fabric.switches:
        ports = world.switch(description.name).stats().ports
        yield pb.Switch(
            device_id=description.device_id,
            ports=[pb.Port(port=number, drops=_dropped(stats)) for number, stats in ports.items()],
        )


def _dropped(stats: PortStats) -> Mapping[str, int]:
    return {"queue_full": stats.queue_drops, "port_down": stats.down_drops, "no_headroom": stats.headroom_drops}


def _counters(switch: Switch) -> dict[str, str]:
    """Indexed counters: the full name of each by its last part."""
    pipeline = switch.pipeline
    assert pipeline is not None, "a world's switches have a program"
    return {counter.name.split(".")[-1]: counter.name for counter in pipeline.program.counters}


def _count(switch: Switch, counter: str, cell: int, words: str) -> Count:
    """One cell: a counter has one for every port there could be, of which a switch has few."""
    value = switch.control_plane.counter_read(counter, cell)
    return Count(words, value.packets, value.bytes)
