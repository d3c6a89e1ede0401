"""Readings of a fabric made by hand, and what a scrape of them says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from controller.values import Count, LinkEndInfo, LinkStatus, PortCounters, SwitchCounters
from mrc_host.counters import Level, at_level
from mrc_host.driver.nic_port import PortStatus
from mrc_host.verbs_types import QpType
from mrc_lab.telemetry.exporter import text
from mrc_lab.telemetry.readings import FabricReading, NicReading, QueuePairReading
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4src import DROP_REASONS, PORT_COUNTERS
from topologies.clos import multi_plane_clos
from topologies.emulation.link_counters import Traffic
from topologies.fabric import Fabric, LinkEnd, Switch
from topologies.faults.link_down import LinkDown
from topologies.faults.record import FaultRecord

FABRIC = multi_plane_clos("lab", planes=2, t0=2, t1=2, hosts=4, rate_bps=80_000_000)
Series = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def counters(level: Level, **given: int) -> dict[str, int]:
    """Every counter of a level, 0 unless given."""
    return {info.name: 0 for info in at_level(level)} | given


def nic(name: str, fabric: Fabric = FABRIC, **given: int) -> NicReading:
    """What an agent answers, with two queue pairs."""
    pairs = (
        QueuePairReading(0x11, QpType.MRC, "h3:17", counters(Level.QP, cwnd_bytes=1000, paths_good=3, paths_skip=1)),
        QueuePairReading(0x12, QpType.MRC, "h4:17", counters(Level.QP, cwnd_bytes=3000, paths_good=4)),
        QueuePairReading(0x13, QpType.RC, "h2:17", counters(Level.QP)),
    )
    ports = tuple(counters(Level.PORT, link_up=1, rx_bytes=100, tx_bytes=8003) for _ in range(fabric.planes))
    driver = tuple(PortStatus(p, f"{name}-eth{p}", True, 0, 0, 0, 0, 0, 5, 6) for p in range(fabric.planes))
    return NicReading(name, counters(Level.NIC, **given), ports, driver, pairs)


def program(switch: Switch, *, of_port: Mapping[int, Mapping[str, int]] | None = None) -> SwitchCounters:
    """What the P4 program of a switch has counted, 0 unless given."""
    names = (*PORT_COUNTERS, *DROP_REASONS[1:])
    ports = tuple(
        PortCounters(port, "", tuple(Count(name, (of_port or {}).get(port, {}).get(name, 0), 0) for name in names))
        for port in switch.ports
    )
    return SwitchCounters(switch.name, tuple(Count(name, 0, 0) for name in DROP_REASONS[1:]), ports)


def reading(fabric: Fabric = FABRIC) -> FabricReading:
    """A fabric in which everything answers, one link is down, and a fault is on it."""
    links = tuple(
        LinkStatus(
            link.name, link.kind, link.plane, _end(link.lower), _end(link.upper), link.rate_bps, link.name != "h2@p1",
            Traffic(1, 100), Traffic(2, 200), ("f1",) if link.name == "h2@p1" else (), 0,
        )
        for link in fabric.links
    )  # fmt: skip
    embedded = tuple(
        pb.Switch(
            device_id=switch.device_id,
            drops={"queue_full": 4, "ingress": 9},
            ports=[
                pb.Port(port=p, queues=[pb.Queue(bytes=10, packets=1, peak_bytes=50, drops=2), pb.Queue(bytes=5)])
                for p in switch.ports
            ],
        )
        for switch in fabric.switches
    )
    return FabricReading(
        fabric,
        tuple(nic(name, fabric) for name in fabric.nic_names),
        links,
        (FaultRecord("f1", LinkDown("h2@p1")),),
        tuple(program(switch) for switch in fabric.switches),
        embedded,
        0.5,
    )


def with_nic(one: NicReading, of: FabricReading | None = None) -> FabricReading:
    """A reading in which a NIC is that one."""
    of = of or reading()
    return replace(of, nics=tuple(one if nic.name == one.name else nic for nic in of.nics))


def scraped(of: FabricReading | None, *, queue_pairs: bool = False) -> Series:
    """Every series of a scrape with its value; a series that is there twice is an error, as it is in Prometheus."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text(of, queue_pairs=queue_pairs).decode()):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, f"twice: {key}"
            found[key] = sample.value
    return found


def value(of: Series, name: str, **labels: str) -> float:
    """The value of a series."""
    return of[name, frozenset(labels.items())]


def _end(end: LinkEnd) -> LinkEndInfo:
    return LinkEndInfo(end.node, end.port, "")
