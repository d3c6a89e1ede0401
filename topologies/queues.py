"""Thresholds at which switches mark, trim and drop, as shares of a plane's bandwidth-delay product.

The shares are Ultra Ethernet's guidance (docs/protocol.md §1.10: ECN between 0.2 and 0.8, trimming at 1, at 1.5 on the
last hop, tail drop at 2 to 5); production values of MRC are not published. The product is the port's rate times
`base_rtt_ns`, but never less than `least_frames` full frames: an emulated fabric runs at a thousandth of the real
rates, while its round trips are those of processes being scheduled.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrc_common.declared.field_types import Boolean, Integer
from mrc_common.declared.sections import key, keys_of
from topologies.errors import FabricError

ETHERNET_BYTES = 14
_NANOSECONDS = 10**9
MAX_SHARE = 10_000  # percent
_SHARE = Integer(1, MAX_SHARE)
_KEPT = Integer(108, 124)  # up to TSETH, or up to RETH, after Ethernet (docs/protocol.md §1.10)


@dataclass(frozen=True, slots=True)
class QueueProfile:
    """Queue signals of every switch of a fabric. Shares are percent of the bandwidth-delay product.

    Data is marked (ECN) with a probability that rises from 0 at `ecn_low` to 1 at `ecn_high`, except towards a NIC (and
    there too with `ecn_lasthop`, which DCQCN needs to notice an incast).
    From `trim` on (`trim_lasthop` towards a NIC) trimmable data is cut to `trim_keep` bytes after Ethernet, 108 or,
    with the RETH, 124. Other data is dropped beyond `limit`.

    With `pfc` first transmissions and the RoCE baseline's data (priority 0) are under priority flow control: a port
    that has more than `pfc_xoff` of them waiting in its switch pauses its neighbour, until `pfc_xon`; `pfc_headroom` is
    for what arrives meanwhile. Nothing of them is then dropped at `limit`. Without `retransmissions_first`
    retransmissions share the class of first transmissions, as in UEC's htsim. Raises :class:`FabricError` where this
    makes no sense.
    """

    base_rtt_ns: int = key(
        Integer(0, _NANOSECONDS),
        "round trip (ns); times a link's rate it is the bandwidth-delay product",
        default=12_000,
    )
    least_frames: int = key(Integer(1, 10_000), "full frames that the product is at least", default=32)
    ecn: bool = key(Boolean(), "mark data", default=True)
    ecn_low: int = key(_SHARE, "share at which marking begins", default=20)
    ecn_high: int = key(_SHARE, "share from which on all is marked", default=80)
    trimming: bool = key(Boolean(), "cut data", default=True)
    trim: int = key(_SHARE, "share from which on data is cut", default=100)
    trim_lasthop: int = key(_SHARE, "the same towards a NIC", default=150)
    limit: int = key(_SHARE, "share beyond which data is dropped", default=500)
    ecn_lasthop: bool = key(Boolean(), "mark towards NICs too", default=False)
    pfc: bool = key(Boolean(), "priority flow control", default=False)
    pfc_xoff: int = key(_SHARE, "share at which a port pauses its neighbour", default=100)
    pfc_xon: int = key(_SHARE, "share at which it resumes", default=80)
    pfc_headroom: int = key(_SHARE, "share for what arrives meanwhile", default=60)
    trim_keep: int = key(_KEPT, "bytes that are left of cut data", default=_KEPT.low)
    retransmissions_first: bool = key(Boolean(), "retransmissions have a class ahead of other data", default=True)

    def __post_init__(self) -> None:
        try:
            for name, declared in keys_of(QueueProfile).items():
                declared.check(getattr(self, name))
        except ValueError as error:
            raise FabricError(str(error)) from None
        if self.ecn_low >= self.ecn_high:
            raise FabricError(f"ecn_low ({self.ecn_low}) must be below ecn_high ({self.ecn_high})")
        if max(self.trim, self.trim_lasthop) >= self.limit:
            raise FabricError(f"trimming must begin below the limit of {self.limit} percent")
        if self.pfc_xon > self.pfc_xoff:
            raise FabricError(f"pfc_xon ({self.pfc_xon}) must not be above pfc_xoff ({self.pfc_xoff})")
        if self.trim_keep not in (_KEPT.low, _KEPT.high):
            raise FabricError(f"trim_keep is {self.trim_keep}, but must be {_KEPT.low} or {_KEPT.high}")

    def product(self, rate_bps: int, mtu: int) -> int:
        """Bandwidth-delay product in bytes of a link of `rate_bps` b/s that carries IPv6 packets of `mtu` bytes."""
        return max(rate_bps * self.base_rtt_ns // (8 * _NANOSECONDS), self.least_frames * (mtu + ETHERNET_BYTES))

    def bytes_at(self, share: int, rate_bps: int, mtu: int) -> int:
        """Bytes of data that are `share` percent of the bandwidth-delay product."""
        return self.product(rate_bps, mtu) * share // 100

    def frames_at(self, share: int, rate_bps: int, mtu: int) -> int:
        """Full frames that are `share` percent of the bandwidth-delay product, at least 1."""
        return max(1, self.bytes_at(share, rate_bps, mtu) // (mtu + ETHERNET_BYTES))

    def data_limit(self, rate_bps: int, mtu: int, ports: int) -> int:
        """Bytes beyond which a queue drops data, on a switch of `ports` ports of at most `rate_bps`.

        With flow control that is more than can arrive: its thresholds, not this, bound the queue.
        """
        share = max(self.limit, (self.pfc_xoff + self.pfc_headroom) * ports) if self.pfc else self.limit
        return self.bytes_at(share, rate_bps, mtu)

    def queue_frames(self, rate_bps: int, mtu: int, ports: int) -> int:
        """Packets for which a queue should have room, so that its own bound is not met before :meth:`data_limit`."""
        return 2 * max(1, self.data_limit(rate_bps, mtu, ports) // (mtu + ETHERNET_BYTES))
