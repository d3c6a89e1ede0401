"""Traffic of an emulated fabric's links, by the kernel's counters.

Every link has an end at a switch, an interface of the root namespace, and the kernel counts there what the switch sent
and received. All of them are in one small file, proc(5) ``/proc/net/dev``, whose reading costs a microsecond an
interface: an experiment may do it many times a second without disturbing what it measures. A link with no end at a P4
switch is in that file of a switch that the kernel is, in whose namespace its interface is. What passed the kernel by
(`--wire ring`) the switches count in files of the run directory; both are added up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mrc_common import wire_counters
from topologies import addressing
from topologies.emulation.run_directory import RunDirectory
from topologies.fabric import Fabric

_DEVICES = Path("/proc/net/dev")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Packets and bytes of one direction of a link since it was made."""

    packets: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """Both directions of a link."""

    upward: Traffic = Traffic()
    downward: Traffic = Traffic()


def read(fabric: Fabric, devices: Path = _DEVICES) -> Mapping[str, LinkTraffic]:
    """Traffic of every link, by name; of one that this machine does not have, none."""
    run = RunDirectory(fabric.name)
    rows = _rows(devices)
    for switch in _watched_kernel_switches(fabric):
        shell = run.shell(switch)
        with contextlib.suppress(OSError):  # it has just ended
            rows |= {} if shell is None else _rows(Path(f"/proc/{shell.pid}/net/dev"))
    for file in run.path.glob(run.wire_counters("*").name):
        for name, count in wire_counters.read(file).items():
            received, sent = rows.get(name, (Traffic(), Traffic()))
            rows[name] = (
                Traffic(received.packets + count.rx_packets, received.bytes + count.rx_bytes),
                Traffic(sent.packets + count.tx_packets, sent.bytes + count.tx_bytes),
            )
    found = {}
    for link in fabric.links:
        end = fabric.watched_end(link)
        received, sent = rows.get(addressing.interface_name(fabric, end), (Traffic(), Traffic()))
        found[link.name] = LinkTraffic(received, sent) if end == link.upper else LinkTraffic(sent, received)
    return found


def _watched_kernel_switches(fabric: Fabric) -> tuple[str, ...]:
    """Switches of the kernel in whose namespaces links are counted."""
    if not fabric.kernel_switches:
        return ()
    ends = (fabric.watched_end(link) for link in fabric.links)
    return tuple(dict.fromkeys(end.node for end in ends if fabric.is_kernel(end.node)))


def _rows(devices: Path) -> dict[str, tuple[Traffic, Traffic]]:
    """Interfaces that a file lists."""
    return dict(_row(line) for line in devices.read_text().splitlines()[2:])


def _row(line: str) -> tuple[str, tuple[Traffic, Traffic]]:
    """An interface with what it received and what it sent."""
    name, _, text = line.partition(":")
    fields = text.split()
    return name.strip(), (Traffic(int(fields[1]), int(fields[0])), Traffic(int(fields[9]), int(fields[8])))
