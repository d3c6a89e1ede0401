"""What simulated switches have counted, as the controller and the switches' own service tell it in emulation.

So that reports of both worlds are made by the same functions (`switch_figures`) and read alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.inspection import DROP_REASONS, PORT_COUNTERS, port_drop
from controller.values import Count, PortCounters, SwitchCounters
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.switch import Switch
from p4runtime_shim.values import PortStats
from simulation.world import SimulatedWorld


def counted(world: SimulatedWorld) -> Iterator[SwitchCounters]:
    """By the P4 program, of every switch."""
    for description in world.fabric.switches:
        switch = world.switch(description.name)
        by_port = {name: _cells(switch, name) for name in PORT_COUNTERS}
        drops, total = _cells(switch, "port_drops"), _cells(switch, "drop_reasons")
        ports = []
        for port in description.ports:
            counts = [Count(name, *cells.get(port, (0, 0))) for name, cells in by_port.items()]
            for reason, words in enumerate(DROP_REASONS[1:], 1):
                counts.append(Count(words, *drops.get(port_drop(port, reason), (0, 0))))
            ports.append(PortCounters(port, "", tuple(counts)))
        reasons = tuple(Count(words, *total.get(number, (0, 0))) for number, words in enumerate(DROP_REASONS[1:], 1))
        yield SwitchCounters(description.name, reasons, tuple(ports))


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


def _cells(switch: Switch, name: str) -> dict[int, tuple[int, int]]:
    """Packets and bytes of an indexed counter, by place; only what has counted."""
    pipeline = switch.pipeline
    assert pipeline is not None, "a world's switches have a program"
    full = next(counter.name for counter in pipeline.program.counters if counter.name.split(".")[-1] == name)
    cells = enumerate(switch.counter_read_all(full))
    return {index: (cell.packets, cell.bytes) for index, cell in cells if cell.packets}
