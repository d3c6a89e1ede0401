"""The datapath in C as one NIC uses it (``mrc_host.datapath``)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mrc_host import datapath
from mrc_host.config import EvFormat, EvOrder, NicConfig
from mrc_host.wire.encap import Flow

if TYPE_CHECKING:
    from mrc_host.datapath import native
    from mrc_host.transport.memory import Region


class NativeDatapath:
    """The module ``native`` and this NIC's receiver."""

    __slots__ = (
        "_carrier",
        "_rc_carrier",
        "carry_frame",
        "data_frame",
        "frame",
        "message",
        "outbox",
        "rc_data_frame",
        "receive",
        "receiver",
        "region",
        "template",
    )

    def __init__(self, module: Any, config: NicConfig) -> None:
        self._carrier: Any = module.Carrier
        self._rc_carrier: Any = module.RcCarrier
        self.data_frame: Any = module.data_frame
        self.frame: Any = module.frame
        self.message: Any = module.Message
        self.outbox: native.Outbox = module.Outbox()
        self.rc_data_frame: Any = module.rc_data_frame
        self.region: Any = module.Region
        self.template: Any = module.Template
        # the secret decides only where prefixes lie in a table, so nothing that is repeatable depends on it
        self.carry_frame: object = module.carry_frame
        self.receiver: native.Receiver = module.Receiver(len(config.ports), int.from_bytes(os.urandom(8), "big"))
        if config.settings.ev_format is not EvFormat.UDP:  # where the flow label is part of entropy values
            self._expect(config)
        self.receive: Any = self.receiver.receive

    def _expect(self, config: NicConfig) -> None:
        """Learn what ``FrameParser`` would accept with an outer header."""
        settings, block = config.settings, config.block.to_bytes(4, "big")
        dscp = settings.dscp
        self.receiver.expect(
            Flow, config.address, settings.udp_port, settings.ev_order is not EvOrder.LOW_IN_SOURCE_PORT,
            1 << dscp.trimmed | 1 << dscp.trimmed_lasthop, settings.ev_format.routed,
            [port.mac + block + port.usid.to_bytes(2, "big") for port in config.ports],
        )  # fmt: skip

    def trace(self, on: bool) -> None:
        """Whether Python has to see each frame as it is, on its way in or out."""
        self.receiver.trace(on)
        self.outbox.trace(on)

    def learn(self, port: int, prefix: bytes, flow: Flow, carried: bool) -> None:
        """Know a prefix, with which a frame came whose ICRC was right; `carried`: data with it may be carried.

        Those of frames beyond 64 KiB stay unknown.
        """
        if flow.end > 0xFFFF:
            return
        self.receiver.learn(
            port, prefix, flow, flow.end, flow.seed, flow.mask, flow.units, carried, flow.ce, flow.source
        )

    def carrier(
        self, qpn: int, source: bytes, mtu: int, reach: int, threshold: int, low: list[int], high: list[int]
    ) -> native.Carrier:
        """What carries the packets of one MRC queue pair."""
        made: native.Carrier = self._carrier(self.receiver, qpn, source, mtu, reach, threshold, low, high)
        return made

    def rc_carrier(self, qpn: int, source: bytes, mtu: int) -> native.RcCarrier:
        """What carries the packets of one RC queue pair."""
        made: native.RcCarrier = self._rc_carrier(self.receiver, qpn, source, mtu)
        return made

    def placed(self, region: Region) -> native.Region:
        """A registered region, as carriers know it."""
        if region.placed is None:
            assert region.view is not None
            region.placed = self.region(region.view)
        placed: native.Region = region.placed
        return placed


def of_nic(config: NicConfig) -> NativeDatapath | None:
    """The datapath of a NIC; None where Python does everything."""
    module = datapath.load()
    return None if module is None else NativeDatapath(module, config)
