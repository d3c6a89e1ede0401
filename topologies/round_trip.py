"""How long a packet and its answer take through a fabric without queues: what congestion control measures against."""

from __future__ import annotations

from topologies.fabric import Fabric

FRAME = 4096 + 142  # bytes of a full data packet (docs/protocol.md §1.1), without FCS
ACK = 154
OVERHEAD = 24  # bytes around a frame: preamble and SFD 8, FCS 4, inter-packet gap 12 (IEEE 802.3)


def serialization(size: int, rate_bps: int) -> int:
    """Time (ns, rounded up) that a frame of `size` bytes occupies a line."""
    return -(-8_000_000_000 * (size + OVERHEAD) // rate_bps)


def base_round_trip(fabric: Fabric, delay: int = 0) -> int:
    """Round trip (ns) of a full packet and its SACK on the fabric's longest path, links having `delay` ns each."""
    slowest = min(link.rate_bps for link in fabric.links)
    hops = 4 if fabric.t1_count else 2
    return hops * (serialization(FRAME, slowest) + serialization(ACK, slowest) + 2 * delay)
