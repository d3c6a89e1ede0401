"""Families of links and switches: state and traffic from the kernel, queues, marks, trims and drops from the switches.

A link has two directions, ``up`` away from the hosts and ``down`` towards them. Each begins at a port, whose queues
are that direction's queues, and where packets are marked and trimmed. A packet that is dropped on arrival counts for
the direction on which it came. BMv2 does not report its queues, so with it there are no series of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from controller.values import LinkStatus, PortCounters, SwitchCounters
from mrc_lab.experiments.running.channel_names import channel_from, channel_to
from mrc_lab.experiments.running.switch_counters import LEAVING
from mrc_lab.telemetry.family_set import Family, FamilySet
from mrc_lab.telemetry.readings import FabricReading
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4src import DROP_REASONS
from topologies.fabric import Fabric

LINK = ("link", "kind", "plane")
DIRECTION = (*LINK, "direction")
SEEN_BY = (*DIRECTION, "switch")  # both ends of a link may drop what it carries
LINK_UP = Family("mrc_link_up", "Whether both ends of the link are up.", LINK)
LINK_RATE = Family("mrc_link_rate_bytes_per_second", "Rate of the link, in each direction.", LINK)
LINK_FAULTS = Family("mrc_link_faults", "Faults injected into the link.", LINK)
LINK_BYTES = Family("mrc_link_bytes_total", "Bytes of frames sent onto the link, without FCS.", DIRECTION)
LINK_PACKETS = Family("mrc_link_packets_total", "Frames sent onto the link.", DIRECTION)
LINK_DROPS = Family(
    "mrc_link_dropped_packets_total",
    "Packets dropped by the P4 program, at either end of the link.",
    SEEN_BY,
)
MARKS = Family("mrc_link_ecn_marked_packets_total", "Packets marked (CE) on their way to the link.", DIRECTION)
TRIMS = Family("mrc_link_trimmed_packets_total", "Packets trimmed on their way to the link.", DIRECTION)
CORRUPTED = Family(
    "mrc_link_corrupted_packets_total", "Packets corrupted by an injected fault, at either end of the link.", SEEN_BY
)
QUEUE_BYTES = Family("mrc_queue_depth_bytes", "Bytes waiting in all queues in front of the link.", DIRECTION)
QUEUE_PACKETS = Family("mrc_queue_depth_packets", "Packets waiting in these queues.", DIRECTION)
QUEUE_PEAK = Family(
    "mrc_queue_peak_bytes",
    "The most that waited in one of them since its switch started or peaks were reset.",
    DIRECTION,
)
QUEUE_DROPS = Family("mrc_queue_dropped_packets_total", "Packets that found one of them at its limit.", DIRECTION)
SWITCH_UP = Family("mrc_switch_up", "Whether the controller can read the switch.", ("switch",))
SWITCH_DROPS = Family(
    "mrc_switch_dropped_packets_total", "Packets dropped, by reason: by the P4 program, or by the switch around it.",
    ("switch", "by", "reason"),
)  # fmt: skip
_BY_PORT = {"marked_packets": MARKS, "trimmed_packets": TRIMS}
_CORRUPTED = ("arrival_corrupted", "departure_corrupted")
_BY_PROGRAM = ("ingress", "egress")  # the switch's names for drops by the program, which has reasons of its own


def add_links(found: FamilySet, reading: FabricReading) -> None:
    """Add what is known of links, queues and switches."""
    for link in reading.links or ():
        _add_link(found, link)
    for counters in reading.counters or ():
        found.add(SWITCH_UP, (counters.switch,), not counters.problem)
        if not counters.problem:
            _add_program(found, reading.fabric, counters)
    names = {switch.device_id: switch.name for switch in reading.fabric.switches}
    for switch in reading.switches:
        if switch.device_id in names:
            _add_switch(found, reading.fabric, names[switch.device_id], switch)


def _add_link(found: FamilySet, link: LinkStatus) -> None:
    labels = (link.name, link.kind.value, link.plane)
    found.add(LINK_UP, labels, link.up)
    found.add(LINK_RATE, labels, link.rate_bps / 8)
    found.add(LINK_FAULTS, labels, len(link.fault_ids))
    for direction, traffic in (("up", link.upward), ("down", link.downward)):
        found.add(LINK_BYTES, (*labels, direction), traffic.bytes)
        found.add(LINK_PACKETS, (*labels, direction), traffic.packets)


def _add_program(found: FamilySet, fabric: Fabric, switch: SwitchCounters) -> None:
    """What the P4 program of a switch has counted: for each direction of its links, and in all by reason."""
    for count in switch.drops:
        found.add(SWITCH_DROPS, (switch.switch, "program", count.name), count.packets)
    for port in switch.ports:
        leaving = direction_labels(fabric, channel_from(fabric, switch.switch, port.port))
        for count in port.counts:
            if count.name in _BY_PORT and leaving is not None:
                found.add(_BY_PORT[count.name], leaving, count.packets)
    drops, corrupted = Counter[str](), Counter[str]()
    for port in switch.ports:
        for channel, name, packets in _losses(fabric, switch.switch, port):
            (corrupted if name in _CORRUPTED else drops)[channel] += packets
    for family, sums in ((LINK_DROPS, drops), (CORRUPTED, corrupted)):
        for channel, packets in sums.items():
            labels = direction_labels(fabric, channel)
            assert labels is not None, "a channel is of a link"
            found.add(family, (*labels, switch.switch), packets)


def _losses(fabric: Fabric, switch: str, port: PortCounters) -> Iterator[tuple[str, str, int]]:
    """What was dropped or corrupted at a port: channel, counter and how many packets."""
    for count in port.counts:
        if count.name in _CORRUPTED or count.name in DROP_REASONS:
            channel = (channel_from if count.name in LEAVING else channel_to)(fabric, switch, port.port)
            if channel is not None:
                yield channel, count.name, count.packets


def _add_switch(found: FamilySet, fabric: Fabric, name: str, switch: pb.Switch) -> None:
    for reason, packets in sorted(switch.drops.items()):
        if reason not in _BY_PROGRAM:
            found.add(SWITCH_DROPS, (name, "switch", reason), packets)
    for port in switch.ports:
        labels = direction_labels(fabric, channel_from(fabric, name, port.port))
        if labels is not None:
            found.add(QUEUE_BYTES, labels, sum(queue.bytes for queue in port.queues))
            found.add(QUEUE_PACKETS, labels, sum(queue.packets for queue in port.queues))
            found.add(QUEUE_PEAK, labels, max((queue.peak_bytes for queue in port.queues), default=0))
            found.add(QUEUE_DROPS, labels, sum(queue.drops for queue in port.queues))


def direction_labels(fabric: Fabric, channel: str | None) -> tuple[object, ...] | None:
    """The labels of a channel, as DIRECTION names them; None for none."""
    if channel is None:
        return None
    link = fabric.link(channel[:-1])
    return link.name, link.kind.value, link.plane, "up" if channel[-1] == ">" else "down"
