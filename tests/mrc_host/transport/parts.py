"""What a part of a queue pair is given in its own tests: a connection, and stand-ins for what surrounds it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mrc_host.config import TransportSettings
from mrc_host.transport.congestion import CongestionControl
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.queue_pair_interfaces import AnswerPaths, Connection, ResponderOwner
from mrc_host.transport.stats import QpStats
from mrc_host.verbs_types import ALL_PLANES, QpAttributes
from mrc_host.wire.encap import Flow
from tests.mrc_host.nic_world import address, make_config

QPN = 0x11
REMOTE_QPN = 0x4242


class Counting(CongestionControl):
    """Never changes its window, and counts the losses reported to it."""

    def __init__(self) -> None:
        super().__init__(1 << 30)
        self.losses = 0

    def on_loss(self, size: int, now: int) -> None:
        self.losses += 1


def connection(attributes: Mapping[str, Any] | None = None, **settings: Any) -> Connection:
    """A connection of a NIC with two planes; `settings` are of the transport."""
    config = make_config(0, 2, 2, 2, transport=TransportSettings(**settings))
    host = NicContext(config, random.Random(1), random.Random(1))
    return Connection(host, QPN, REMOTE_QPN, 0, QpAttributes(**(attributes or {})), QpStats())


def flow(ev: int = 0, *, ce: bool = False, units: int = 17) -> Flow:
    """How a packet came."""
    made = Flow(address(1), ev, 0, ce, False, True, 0, 100)
    made.units = units
    return made


class ResponderQp(ResponderOwner):
    """Notes what a responder asks of its queue pair."""

    def __init__(self) -> None:
        self.offered = 0
        self.room = True
        self.received: list[tuple[int, int, bool]] = []
        self.refused: list[int] = []
        self.failed: list[str] = []

    def offer_control(self) -> None:
        self.offered += 1

    def accepts_writes(self) -> bool:
        return True

    def has_cq_room(self) -> bool:
        return self.room

    def complete_receive(self, length: int, imm: int, solicited: bool) -> None:
        self.received.append((length, imm, solicited))

    def refuse(self, syndrome: int, reason: str) -> None:
        self.refused.append(syndrome)

    def fail_responder(self, reason: str) -> None:
        self.failed.append(reason)


class Answers(AnswerPaths):
    """Paths on which every answer leaves; the bodies that did are kept."""

    def __init__(self) -> None:
        self.doubts: list[bool] = []
        self.sent: list[tuple[int, bytes]] = []
        self.working: list[int] = []

    def port(self, anywhere: bool = False, among: int = ALL_PLANES) -> int:
        return 1

    def works(self, index: int, now: int) -> None:
        self.working.append(index)

    def reverse_path(self, plane: int, now: int) -> int:
        return plane

    def random_path(self, plane: int) -> int:
        return 100 + plane

    def acknowledging(self, now: int) -> None:
        pass

    def doubt_reverse_paths(self, probed: bool = False) -> None:
        self.doubts.append(probed)

    def frame(self, index: int, kind: int, body: bytes) -> bytes:
        self.sent.append((index, body))
        return body
