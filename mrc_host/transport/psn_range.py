"""The range of PSNs (MPR) that a queue pair needs so that its path, not the range, limits its rate.

A sender may be up to MPR packets ahead of the oldest one that has not arrived (docs/protocol.md R2.7). A queue pair
that fills its path has the bandwidth-delay product (BDP) in flight, and goes on while a lost packet is recovered: the
loss shows a round trip after the packet was sent, it is sent again a reorder window (a quarter of a round trip) later,
and the answer takes another round trip. Queues up to NSCC's target delay make these longer. So the range chosen here is
`BDPS` times the BDP: in units of 128 PSNs, at least the documented 8, at most the 255 that the field holds.
"""

from __future__ import annotations

from typing import Final

UNIT: Final = 128  # PSNs
DEFAULT_MPR: Final = 8  # units, as documented examples have (R2.2)
MAX_MPR: Final = 255  # units: a field of 8 bits
BDPS: Final = 3


def mpr_for(bdp: int, path_mtu: int) -> int:
    """MPR in units of 128 PSNs for a bandwidth-delay product in bytes: `DEFAULT_MPR` to `MAX_MPR`."""
    return min(MAX_MPR, max(DEFAULT_MPR, -(-BDPS * bdp // (path_mtu * UNIT))))


def range_bytes(mpr: int, path_mtu: int) -> int:
    """Payload in bytes that a queue pair can have in flight at most, with an MPR in units of 128 PSNs."""
    return (mpr * UNIT - 1) * path_mtu
