"""Checks of a fabric, done once when the value is created; each failure is a message for the user."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import combinations
from typing import TYPE_CHECKING

from topologies.errors import FabricError
from topologies.parts import FabricNic, T2Wiring, Tier
from topologies.wiring import Position, positions

if TYPE_CHECKING:
    from topologies.fabric import Fabric

MAX_PLANES = 8  # three bits of a uSID
MAX_PER_KIND = 1024  # ten bits of a uSID: T0s, T1s or T2s per plane, NICs per T0
MAX_PORTS = 509  # v1model ports are 9 bits and count from 1 here; 511 means drop and 510 is the controller's
MAX_HOSTS = MAX_PER_KIND**2  # as many on every T0
MAX_NICS = 65535  # 16 bits of a NIC's MAC address
MIN_MTU, MAX_MTU = 1280, 65471  # with all headers a switch takes frames of 65535 bytes
MIN_RATE_BPS, MAX_RATE_BPS = 8_000, 10**12
MAX_DELAY_NS = 10**9
MAX_REROUTE_NS = 10 * 10**9  # a link-state or BGP network with slow timers
_NO_PACKETS = "run an experiment of states, without packets (backend: scale)"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")


def check_parts(fabric: Fabric) -> bool:
    """FabricError unless switches, NICs and links are those of a Clos, each where it belongs.

    Returns whether no link is missing.
    """
    _check_scalars(fabric)
    _check_unique("switch", (switch.name for switch in fabric.switches))
    _check_unique("device id", (switch.device_id for switch in fabric.switches))
    _check_unique("NIC", (nic.name for nic in fabric.nics))
    _check_unique("link", (link.name for link in fabric.links))
    _check_tiers(fabric)
    _check_switches(fabric)
    _check_pods(fabric)
    _check_nics(fabric)
    if fabric.queues.pfc and fabric.kernel_switches:
        raise FabricError(
            f"queues: pfc is on, but {fabric.kernel_switches[0].name} is the kernel's, which has no priority flow"
            " control: turn pfc off, or leave it out of kernel_switches"
        )
    return _check_links(fabric)


def check_range(what: str, value: int, low: int, high: int) -> None:
    """FabricError unless `value` is from `low` to `high`."""
    if not low <= value <= high:
        raise FabricError(f"{what} is {value}, but must be between {low} and {high}")


def _check_scalars(fabric: Fabric) -> None:
    if not _NAME.fullmatch(fabric.name):
        raise FabricError(
            f"fabric name {fabric.name[:40]!r} must be 1 to 32 lower-case letters, digits or hyphens and begin with"
            " a letter"
        )
    check_range("planes", fabric.planes, 1, MAX_PLANES)
    check_range("mtu", fabric.mtu, MIN_MTU, MAX_MTU)
    if fabric.reroute_ns is not None:
        check_range("reroute (in ns)", fabric.reroute_ns, 1, MAX_REROUTE_NS)
    check_range("usid_block", fabric.usid_block, 0, 0xFFFF_FFFF)
    check_range("address_prefix", fabric.address_prefix, 0, 0xFFFF_FFFF_FFFF)


def _check_unique(what: str, names: Iterable[object]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise FabricError(f"{what} {name} appears {count} times; every {what} must appear once")


def _check_tiers(fabric: Fabric) -> None:
    for tier in Tier:
        numbers = [[switch.index for switch in fabric.tier(tier, plane)] for plane in range(fabric.planes)]
        count = len(numbers[0])
        check_range(f"number of {tier.name}s per plane", count, 1 if tier is Tier.T0 else 0, MAX_PER_KIND)
        for plane, found in enumerate(numbers):
            if found != list(range(count)):
                raise FabricError(
                    f"plane {plane} must have the {tier.name}s 0 to {count - 1} as plane 0 has, but has {found}"
                )
        for plane in range(fabric.planes):
            if any(a.pod != b.pod for a, b in zip(fabric.tier(tier, 0), fabric.tier(tier, plane), strict=True)):
                raise FabricError(f"the {tier.name}s of plane {plane} must be in the same pods as those of plane 0")
    if fabric.t0_count > 1 and fabric.t1_count == 0:
        raise FabricError(f"{fabric.t0_count} T0s per plane need at least one T1 to join them: give t1, or one T0")


def _check_switches(fabric: Fabric) -> None:
    for switch in fabric.switches:
        expected = f"{switch.tier.name.lower()}-{switch.index}@p{switch.plane}"
        if switch.name != expected:
            raise FabricError(f"switch {switch.name!r} must be called {expected}")
        if not 0 <= switch.plane < fabric.planes:
            raise FabricError(f"switch {switch.name} is in a plane that does not exist: there are {fabric.planes}")
        if not 1 <= switch.device_id < 1 << 63:
            raise FabricError(f"switch {switch.name} needs a device id from 1 on, not {switch.device_id}")


def _check_pods(fabric: Fabric) -> None:
    for tier, least in ((Tier.T0, 1), (Tier.T1, 0)):
        pods = [switch.pod for switch in fabric.tier(tier, 0)]
        if pods != sorted(pods) or set(pods) - set(range(fabric.pods)):
            raise FabricError(f"the {tier.name}s must fill the pods one after the other, from pod 0 on")
        sizes = Counter(pods)
        if any(sizes[pod] < least for pod in range(fabric.pods)):
            raise FabricError(f"every pod needs a {tier.name}")
        if tier is Tier.T1 and len({sizes[pod] for pod in range(fabric.pods)}) > 1:
            raise FabricError("every pod must have as many T1s as the others")
    check_wiring(fabric.pods, fabric.t1_per_pod, fabric.t2_count, fabric.wiring)


def check_wiring(pods: int, t1: int, t2: int, wiring: T2Wiring) -> None:
    """FabricError unless `t2` T2s a plane can join `pods` pods of `t1` T1s each."""
    if pods > 1 and not (t1 and t2):
        raise FabricError(f"{pods} pods need at least one T1 each and one T2 per plane to join them: give t1 and t2")
    if t2 and not t1:
        raise FabricError("T2s need T1s below them: give t1, or leave t2 out")
    if t2 and wiring is T2Wiring.GROUPS and t2 % t1:
        raise FabricError(
            f"{t2} T2s cannot be divided evenly over the {t1} T1s of a pod: give a multiple of {t1}, or t2_wiring: mesh"
        )


def _check_nics(fabric: Fabric) -> None:
    check_range("number of hosts", len(fabric.nics), 1, MAX_HOSTS)
    if fabric.packets and len(fabric.nics) > MAX_NICS:
        count = len(fabric.nics)
        raise FabricError(f"there are {count} hosts, but {MAX_NICS} NICs can have a MAC address: {_NO_PACKETS}")
    rack, downlink = 0, 0
    for index, nic in enumerate(fabric.nics):
        if nic.index != index:
            raise FabricError(f"NIC {nic.name} is number {index} of the fabric, but says {nic.index}")
        if (nic.t0, nic.downlink) == (rack + 1, 0) and downlink:
            rack, downlink = rack + 1, 0
        if (nic.t0, nic.downlink) != (rack, downlink) or rack >= fabric.t0_count:
            raise FabricError(
                f"NIC {nic.name} must be on T0 {rack} downlink {downlink}: hosts fill one T0 group after the other"
            )
        downlink += 1
        check_range("number of hosts in a rack", downlink, 1, MAX_PER_KIND)
    if rack != fabric.t0_count - 1:
        raise FabricError(f"only {rack + 1} of {fabric.t0_count} T0s have hosts below them: give every T0 one")


def _check_links(fabric: Fabric) -> bool:
    expected = positions(fabric.planes, fabric.switches, fabric.nics, fabric.wiring)
    plugged: dict[str, list[int]] = {switch.name: [] for switch in fabric.switches}
    for link in fabric.links:
        if not MIN_RATE_BPS <= link.rate_bps <= MAX_RATE_BPS:
            raise FabricError(
                f"rate of link {link.name} is {link.rate_bps} b/s, but must be between {MIN_RATE_BPS}"
                f" and {MAX_RATE_BPS}"
            )
        if link.delay_ns is not None and not 0 <= link.delay_ns <= MAX_DELAY_NS:
            raise FabricError(f"delay of link {link.name} is {link.delay_ns} ns, but must be between 0 and 1 s")
        found = expected.get(link.name)
        if found is None or (found.kind, found.plane, found.lower, found.upper) != (
            link.kind, link.plane, link.lower, link.upper,
        ):  # fmt: skip
            raise FabricError(f"link {link.name} does not belong into a Clos of these switches, or ends at wrong ports")
        for end in (link.lower, link.upper):
            if end.node in plugged:
                plugged[end.node].append(end.port)
    for switch in fabric.switches:
        ports = plugged[switch.name]
        if switch.ports != tuple(sorted(ports)):
            raise FabricError(
                f"switch {switch.name} has {len(switch.ports)} ports, but {len(ports)} links end there:"
                " its ports must be those of its links"
            )
    if fabric.packets:
        _check_ports(expected.values())
    return len(fabric.links) == len(expected)


def _check_ports(expected: Iterable[Position]) -> None:
    ports: dict[str, int] = {}
    for position in expected:
        for end in (position.lower, position.upper):
            ports[end.node] = max(ports.get(end.node, 0), end.port)
    for name, count in ports.items():
        if count > MAX_PORTS:
            raise FabricError(
                f"switch {name} has {count} ports, but a P4 switch has {MAX_PORTS} at most:"
                f" use more T0s, fewer T1s or fewer hosts, or {_NO_PACKETS}"
            )


def check_paths(fabric: Fabric) -> None:
    """FabricError if two hosts have no path in any plane. Needs the index of uplinks.

    Hosts whose NIC and T0 have links to the same places are alike: two of them, below different T0s, stand for all.
    """
    alike: dict[object, list[FabricNic]] = {}
    for nic in fabric.nics:
        ports = tuple(fabric.nic_link(nic, plane) is not None for plane in range(fabric.planes))
        if not any(ports):
            raise FabricError(f"{nic.name} has no link in any plane: leave it one, or leave the host out")
        above = tuple(frozenset(fabric.uplinks(t0.name)) for t0 in fabric.racks(nic.t0))
        found = alike.setdefault((fabric.pod_of(nic.t0), above, ports), [])
        if not found or (len(found) == 1 and found[0].t0 != nic.t0):
            found.append(nic)
    for one, other in combinations((nic for found in alike.values() for nic in found), 2):
        if not fabric.paths(one, other):
            above_them = "T1 or T2" if fabric.t2_count else "T1"
            raise FabricError(
                f"{one.name} and {other.name} have no path in any plane: leave them a {above_them} that both reach"
            )
