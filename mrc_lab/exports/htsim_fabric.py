"""The fabric of a case as htsim has it, and its failed links; ValueError names the key that has no like there."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from mrc_lab.errors import FileError
from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.experiments.files.listed_flows import failed_link
from mrc_lab.experiments.files.model import Case
from mrc_lab.workloads.htsim.connection_matrix import MatrixFailure
from mrc_lab.workloads.htsim.topology import FatTree, FatTreeTier, parse_topology
from simulation.hardware_timing import IDEAL
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.faults.link_down import LinkDown
from topologies.parts import LinkKind, T2Wiring, Tier

_GBPS = 10**9


def exported_tree(case: Case) -> FatTree:
    """The fat tree that a case's fabric is."""
    part = case.fabric
    if part.planes > 1:
        raise ValueError(f"fabric.planes is {part.planes}, but a host of htsim has one port: planes must be 1")
    if not part.t1:
        raise ValueError("fabric.t1 is 0, but fabrics of htsim have two tiers or three")
    if part.t2 and part.t2_wiring is T2Wiring.MESH:
        raise ValueError("fabric.t2_wiring is mesh, but in htsim a T2 joins the T1s of one number: it must be groups")
    if replace(case.timing, switch=0) != IDEAL:
        raise ValueError("timing: of all its times htsim's files have that of switches only")
    fabric = build_fabric(part)
    if fabric.kernel_switches:
        raise ValueError("fabric.kernel_switches: switches of htsim are all alike")
    if fabric.reroute_ns is not None:
        raise ValueError("fabric.reroute: htsim's files have nothing of it")
    racks, pods = _even(fabric)
    t0s = len(fabric.tier(Tier.T0, 0))
    if len(fabric.links) != len(fabric.nics) + t0s * part.t1 + pods * part.t2:
        raise ValueError("fabric.links: links are missing, and a fat tree of htsim has all of them")
    up = [part.t1, part.t2 // part.t1 if part.t2 else 0, 0]
    down = [racks, t0s // pods, pods]
    kinds = (LinkKind.NIC_T0, LinkKind.T0_T1, LinkKind.T1_T2)[: 3 if part.t2 else 2]
    links = [_alike(fabric, kind, part.delay) for kind in kinds]
    tiers = []
    for number, (rate, delay) in enumerate(links):
        above = links[number + 1][0] if number + 1 < len(links) else 0
        ratio = _ratio(number, down[number] * rate, up[number] * above)
        tiers.append(FatTreeTier(rate // _GBPS, down[number], up[number], delay, case.timing.switch, ratio))
    tree = FatTree(len(fabric.nics), len(fabric.nics) // pods, tuple(tiers))
    try:
        return parse_topology(tree.text(), "fabric: its topology")
    except FileError as error:
        raise ValueError(str(error)) from None


def _even(fabric: Fabric) -> tuple[int, int]:
    """Hosts of each rack, and pods; ValueError if they are not all alike."""
    t0s = fabric.tier(Tier.T0, 0)
    racks = set(Counter(nic.t0 for nic in fabric.nics).values())
    pods = Counter(t0.pod for t0 in t0s)
    if len(racks) > 1 or len(set(pods.values())) > 1:
        raise ValueError("fabric.racks: all racks and all pods of htsim have the same size")
    return racks.pop(), len(pods)


def _alike(fabric: Fabric, kind: LinkKind, delay: int) -> tuple[int, int]:
    """Rate and delay of all links of a kind; ValueError where they differ, or htsim cannot say them."""
    found = {
        (link.rate_bps, delay if link.delay_ns is None else link.delay_ns) for link in fabric.links if link.kind is kind
    }
    if len(found) > 1:
        raise ValueError(f"fabric.links: {kind.value} links differ, and in htsim all links of a tier are alike")
    (rate, latency) = found.pop()
    if rate % _GBPS:
        raise ValueError(f"fabric.rate: {kind.value} links have {rate / _GBPS:g} Gb/s, but htsim's are whole Gb/s")
    if not latency:
        raise ValueError("fabric.delay is 0, which htsim takes for a value that is missing: it must be 1 ns or more")
    return rate, latency


def _ratio(tier: int, down: int, up: int) -> int:
    """By how much a tier is oversubscribed; the highest is not."""
    if not up:
        return 1
    if down % up:
        raise ValueError(
            f"fabric.t{tier + 1}: the switches of tier {tier} have {down // _GBPS} Gb/s downwards and {up // _GBPS}"
            " upwards, but in htsim the first is a multiple of the second"
        )
    return down // up


def exported_failures(case: Case) -> tuple[MatrixFailure, ...]:
    """Links that have failed from the beginning to the end."""
    fabric = build_fabric(case.fabric)
    found = []
    for planned in case.faults:
        fault = planned.fault
        if not isinstance(fault, LinkDown) or fault.towards or planned.at or planned.until or planned.by_chance:
            raise ValueError(f"faults, line {planned.line}: in htsim a link is down for the whole run or not at all")
        found += [_failure(fabric, link.name) for link in fabric.find_links(fault.link)]
    return tuple(found)


def _failure(fabric: Fabric, link: str) -> MatrixFailure:
    """The line of htsim for a link; ValueError if it has none."""
    uplinks = fabric.t2_count // fabric.t1_per_pod
    for switch in range(fabric.pods * fabric.t1_per_pod):
        for number in range(uplinks):
            failure = MatrixFailure(switch, number)
            try:
                if failed_link(fabric, failure) == link:
                    return failure
            except FabricError:  # htsim itself has no link of this number
                continue
    raise ValueError(f"faults: htsim can fail some links from T1s to T2s only, and {link} is none of them")
