"""The map as text: one table a plane, T0s down and T1s across, then the suspected faults in words."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from controller.path_map.values import Direction, MapState, Part, SuspectedFault
from topologies.fabric import Fabric, Tier

SECOND = 1_000_000_000
_ARROWS = {Direction.BOTH: "", Direction.UP: "^", Direction.DOWN: "v", None: "?"}
_PARTS = {Part.NIC_T0: "NIC-T0 link", Part.T0_T1: "T0-T1 link", Part.SWITCH: "switch", Part.PATH: "path"}
_WAYS = {
    Part.NIC_T0: {Direction.UP: " towards the T0", Direction.DOWN: " towards the NIC"},
    Part.T0_T1: {Direction.UP: " towards the T1", Direction.DOWN: " towards the T0"},
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
    lines += [f"the agent of {host} does not answer" for host in state.unreachable]
    if state.feeding or state.denied:
        lines.append(
            f"denylists: {state.denied} entropy values denied{'' if state.feeding else ', being allowed again'}"
        )
    return "\n".join(lines)


def describe(fault: SuspectedFault, began: float) -> str:
    """A suspected fault as a sentence; mapping began at `began`, seconds since the epoch.

    The confidence is rounded down: 100 % would be a promise that no count of probes can keep.
    """
    share = "100 %" if fault.loss > 0.985 else f"{fault.loss * 100:.1f} %"
    way = _WAYS.get(fault.part, {}).get(fault.direction, "") if fault.direction else ", direction unclear"
    clock = time.strftime("%H:%M:%S", time.localtime(began + fault.since_ns / SECOND))
    confidence = min(99, math.floor(fault.confidence * 100))
    text = f"{fault.name} ({_PARTS[fault.part]}): {share} loss{way} since {clock} (confidence {confidence} %)"
    return text + (f"; or else {', '.join(fault.rivals)}" if fault.rivals else "")


def _plane(fabric: Fabric, state: MapState, plane: int) -> Iterator[str]:
    t1s = [switch.name.partition("@")[0] for switch in fabric.tier(Tier.T1, plane)]
    suspected = {fault.name: fault for fault in state.suspected if fault.plane == plane}
    seen = {link.name for link in state.links if link.sent}

    def cell(link: str, *switches: str) -> str:
        for name in (link, *switches):
            if name in suspected:
                fault = suspected[name]
                return f"{fault.loss:.0%}{_ARROWS[fault.direction]}{'' if name == link else '*'}"
        return "ok" if link in seen else "-"

    width = max(7, *(len(name) + 1 for name in t1s)) if t1s else 7
    yield f"plane {plane}".ljust(9) + "".join(name.ljust(width) for name in t1s) + "NICs"
    for t0 in fabric.tier(Tier.T0, plane):
        short = t0.name.partition("@")[0]
        cells = [cell(f"{short}:{t1}@p{plane}", t0.name, f"{t1}@p{plane}") for t1 in t1s]
        nics = "  ".join(f"{nic.name} {cell(f'{nic.name}@p{plane}', t0.name)}" for nic in fabric.nics_of(t0.index))
        yield short.ljust(9) + "".join(text.ljust(width) for text in cells) + nics
