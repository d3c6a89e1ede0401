"""The map as text: a table a plane and pod, T0s down and T1s across, then the suspected faults in words.

With three tiers a plane has one more, T1s down and T2s across.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

from controller.path_map.values import Direction, ElementKind, MapState, SlowPort, SuspectedFault
from topologies.fabric import Fabric, Switch, Tier, link_name

SECOND = 1_000_000_000
_ARROWS = {Direction.BOTH: "", Direction.UP: "^", Direction.DOWN: "v", None: "?"}
_KINDS = {
    ElementKind.NIC_T0: "NIC-T0 link", ElementKind.T0_T1: "T0-T1 link", ElementKind.T1_T2: "T1-T2 link",
    ElementKind.SWITCH: "switch",
    ElementKind.PATH: "path",
}  # fmt: skip
_DIRECTIONS = {
    ElementKind.NIC_T0: {Direction.UP: " towards the T0", Direction.DOWN: " towards the NIC"},
    ElementKind.T0_T1: {Direction.UP: " towards the T1", Direction.DOWN: " towards the T0"},
    ElementKind.T1_T2: {Direction.UP: " towards the T2", Direction.DOWN: " towards the T1"},
}


def draw(fabric: Fabric, state: MapState) -> str:
    """Everything that is known, for people."""
    if not state.running:
        return "there is no path map: 'map' starts one"
    lines = [
        f"path map of {fabric.name}: {state.rate:g} probes/s a link and direction,"
        f" a round takes {state.round_seconds:.2f} s, mapped for {state.seconds:.0f} s"
    ]
    for plane in range(fabric.planes):
        lines += ["", *_plane(fabric, state, plane)]
    began = time.time() - state.seconds
    lines += ["", *(describe(fault, began) for fault in state.suspected)]
    if not state.suspected:
        lines.append("no suspected fault" if any(link.sent for link in state.links) else "no probes are judged yet")
    lines += [text for port in state.slow_ports for text in _slow(port)]
    lines += [f"the agent of {host} does not answer" for host in state.unreachable]
    if state.feeding or state.denied:
        lines.append(
            f"denylists: {state.denied} entropy values denied{'' if state.feeding else ', being allowed again'}"
        )
    return "\n".join(lines)


def _slow(port: SlowPort) -> Iterator[str]:
    if port.own:
        yield f"{port.name} is slower than its NIC's other ports, which wait for it"
    if port.peers:
        host, _, plane = port.name.rpartition("@p")
        to = f"{port.peers} NIC{'s' if port.peers > 1 else ''}"
        yield f"plane {plane} from {host} to {to}, or their port there, is slower than the others, which wait for it"


def describe(fault: SuspectedFault, began: float) -> str:
    """A suspected fault as text; mapping began at `began`, seconds since the epoch.

    The confidence is rounded down: 100 % would be a promise that no count of probes can keep.
    """
    share = "100 %" if fault.loss > 0.985 else f"{fault.loss * 100:.1f} %"
    direction = _DIRECTIONS.get(fault.part, {}).get(fault.direction, "") if fault.direction else ", direction unclear"
    clock = time.strftime("%H:%M:%S", time.localtime(began + fault.since_ns / SECOND))
    confidence = min(99, math.floor(fault.confidence * 100))
    text = f"{fault.name} ({_KINDS[fault.part]}): {share} loss{direction} since {clock} (confidence {confidence} %)"
    return text + (f"; or else {', '.join(fault.rivals)}" if fault.rivals else "")


def _plane(fabric: Fabric, state: MapState, plane: int) -> Iterator[str]:
    suspected = {fault.name: fault for fault in state.suspected if fault.plane == plane}
    seen = {link.name for link in state.links if link.sent}
    present = {link.name for link in fabric.links if link.plane == plane}

    def cell(link: str, *switches: str) -> str:
        if link not in present:
            return ""
        for name in (link, *switches):
            if name in suspected:
                fault = suspected[name]
                return f"{fault.loss:.0%}{_ARROWS[fault.direction]}{'' if name == link else '*'}"
        return "ok" if link in seen else "-"

    def grid(title: str, below: Sequence[Switch], above: Sequence[Switch], nics: bool) -> Iterator[str]:
        across = [switch.short_name for switch in above]
        width = max([7, *(len(name) + 1 for name in across)])
        yield title.ljust(9) + "".join(name.ljust(width) for name in across) + ("NICs" if nics else "")
        for lower in below:
            cells = [cell(link_name(lower.name, upper.name), lower.name, upper.name) for upper in above]
            hosts = fabric.nics_of(lower.index) if nics else ()
            named = "  ".join(f"{nic.name} {cell(f'{nic.name}@p{plane}', lower.name)}" for nic in hosts)
            yield (lower.short_name.ljust(9) + "".join(text.ljust(width) for text in cells) + named).rstrip()

    for pod in range(fabric.pods):
        t0s, t1s = ([s for s in fabric.tier(tier, plane) if s.pod == pod] for tier in (Tier.T0, Tier.T1))
        yield from grid(f"plane {plane}" if not pod else f" pod {pod}", t0s, t1s, True)
    if fabric.t2_count:
        yield from grid("", fabric.tier(Tier.T1, plane), fabric.tier(Tier.T2, plane), False)
