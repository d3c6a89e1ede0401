"""Trims and drops of switches in emulation, by channel: the P4 program's counters, and the embedded switch's own.

The program counts trims, corruption and drops by port, on both switches. The embedded switch says beside that what its
queues and ports dropped, and its driver what the kernel did (SwitchManagement, p4runtime_shim/proto/switch_v1.proto);
BMv2 has no such service. A channel is one direction of a link, as in `Recording.channels`. Only what occurred is
listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from controller.values import Count, SwitchCounters
from mrc_lab.experiments.running.channel_names import channel_from, in_words, reverse
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4src import DROP_REASONS
from topologies.fabric import Fabric

_BY_QUEUES = {"queue_full": "queue full", "port_down": "port down", "no_headroom": "no headroom left"}
_ARRIVING = ("no_headroom", "rx_dropped")  # belong to the channel that ends at the port
_BY_KERNEL = {"rx_dropped": "kernel's receive buffer full", "tx_errors": "refused by the kernel",
              "tx_lost": "interface gone"}  # fmt: skip
LEAVING = ("queue full", "departure loss", "departure_corrupted")
"""Counters of the P4 program that belong to the channel that begins at the port; others to the one that ends there."""
_ARRIVED = (*(reason for reason in DROP_REASONS[1:] if reason not in LEAVING), "arrival_corrupted")  # that ends there
_LOST = ("arrival loss", "departure loss", "path loss", "blackhole")
_IN_WORDS = {
    "queue full": "queue full (by the program)",
    "arrival_corrupted": "corrupted by a fault",
    "departure_corrupted": "corrupted by a fault",
}


def trimmed(fabric: Fabric, counters: Iterable[SwitchCounters]) -> dict[str, int]:
    """Packets trimmed on their way to each channel."""
    found: dict[str, int] = {}
    for switch in counters:
        for port in switch.ports:
            channel = channel_from(fabric, switch.switch, port.port)
            count = sum(count.packets for count in port.counts if count.name == "trimmed_packets")
            if count and channel:
                found[channel] = count
    return found


def lost(fabric: Fabric, counters: Iterable[SwitchCounters]) -> dict[str, int]:
    """Packets that faults lost on each channel; only of switches that could be asked."""
    found: Counter[str] = Counter()
    for switch in counters:
        for channel, count in _by_channel(fabric, switch):
            if count.name in _LOST:
                found[channel] += count.packets
    return dict(found)


def drops(fabric: Fabric, counters: Iterable[SwitchCounters], own: Iterable[pb.Switch]) -> dict[str, int]:
    """Frames dropped or corrupted, by reason and channel, without what `lost` counts.

    What came from no channel, as packets of the controller, or goes to none is listed by switch.
    """
    found: dict[str, int] = {}
    for switch in counters:
        found.update(_by_program(fabric, switch))
    names = {switch.device_id: switch.name for switch in fabric.switches}
    for switch_counts in own:
        name = names[switch_counts.device_id]
        for port in switch_counts.ports:
            found.update(_at_port(fabric, name, port))
    return {label: count for label, count in found.items() if count > 0}


def _by_program(fabric: Fabric, switch: SwitchCounters) -> Counter[str]:
    found: Counter[str] = Counter()
    left = {count.name: count.packets for count in switch.drops}
    for channel, count in _by_channel(fabric, switch):
        if not count.packets:
            continue
        if count.name not in _LOST:
            found[f"{_IN_WORDS.get(count.name, count.name)}, {in_words(channel)}"] += count.packets
        if count.name in left:
            left[count.name] -= count.packets
    found.update({f"{_IN_WORDS.get(reason, reason)} at {switch.switch}": count for reason, count in left.items()})
    return found


def _by_channel(fabric: Fabric, switch: SwitchCounters) -> Iterator[tuple[str, Count]]:
    """The counters that say what became of packets, with the channel they belong to."""
    for port in switch.ports:
        leaving = channel_from(fabric, switch.switch, port.port)
        if leaving is None:
            continue
        arriving = reverse(leaving)
        for count in port.counts:
            if count.name in LEAVING:
                yield leaving, count
            elif count.name in _ARRIVED:
                yield arriving, count


def _at_port(fabric: Fabric, switch: str, port: pb.Port) -> Mapping[str, int]:
    found: dict[str, int] = {}
    leaving = channel_from(fabric, switch, port.port)
    if leaving is None:
        return found
    for words, counts in ((_BY_QUEUES, port.drops), (_BY_KERNEL, port.driver)):
        for key, label in words.items():
            channel = reverse(leaving) if key in _ARRIVING else leaving
            found[f"{label}, {in_words(channel)}"] = counts.get(key, 0)
    return found
