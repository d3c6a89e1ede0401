"""The datapath in C as one NIC uses it (``mrc_host.datapath``)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mrc_host import datapath
from mrc_host.config import EvFormat, EvOrder, NicConfig
from mrc_host.wire.encap import PREFIX_DROPS, Flow

if TYPE_CHECKING:
    from mrc_host.datapath import native
    from mrc_host.transport.memory import Region


class NativeDatapath:
    """The functions and classes of ``native``, and this NIC's receiver and outbox."""

    __slots__ = (
        "_rc_receive_state",
        "_receive_state",
        "carry_frame",
        "data_frame",
        "frame",
        "message",
        "outbox",
        "rc_data_frame",
        "receive",
        "receiver",
        "region",
    )

    def __init__(self, config: NicConfig) -> None:
        module = datapath.load()
        self._receive_state: Any = module.ReceiveState
        self._rc_receive_state: Any = module.RcReceiveState
        self.data_frame: Any = module.data_frame
        self.frame: Any = module.frame
        self.message: Any = module.Message
        self.outbox: native.Outbox = module.Outbox()
        self.rc_data_frame: Any = module.rc_data_frame
        self.region: Any = module.Region
        self.carry_frame: object = module.carry_frame
        # the secret decides only where prefixes lie in a table, so nothing that is repeatable depends on it
        self.receiver: native.Receiver = module.Receiver(len(config.ports), int.from_bytes(os.urandom(8), "big"))
        settings, block = config.settings, config.block.to_bytes(4, "big")
        dscp = settings.dscp
        self.receiver.expect(
            Flow, PREFIX_DROPS, config.address, settings.udp_port,
            settings.ev_order is not EvOrder.LOW_IN_SOURCE_PORT, settings.ev_format is not EvFormat.UDP,
            settings.ev_format.routed, 1 << dscp.trimmed | 1 << dscp.trimmed_lasthop,
            [port.mac + block + port.usid.to_bytes(2, "big") for port in config.ports],
        )  # fmt: skip
        self.receive: Any = self.receiver.receive

    def trace(self, on: bool) -> None:
        """Whether Python has to see each frame as it is, on its way in or out."""
        self.receiver.trace(on)
        self.outbox.trace(on)

    def receive_state(
        self, qpn: int, source: bytes, first_psn: int, mtu: int, reach: int, threshold: int, planes: int
    ) -> native.ReceiveState:
        """The receive state of a new connection of an MRC queue pair."""
        made: native.ReceiveState = self._receive_state(
            self.receiver, qpn, source, first_psn, mtu, reach, threshold, planes
        )
        return made

    def rc_receive_state(self, qpn: int, source: bytes, first_psn: int, mtu: int) -> native.RcReceiveState:
        """The receive state of a new connection of an RC queue pair."""
        made: native.RcReceiveState = self._rc_receive_state(self.receiver, qpn, source, first_psn, mtu)
        return made

    def placed(self, region: Region) -> native.Region:
        """A registered region, as receive states know it."""
        if region.placed is None:
            assert region.view is not None
            region.placed = self.region(region.view)
        placed: native.Region = region.placed
        return placed
