"""A rank's watch over the other ranks of its group: heartbeats on queue pairs of their own, and notices.

A heartbeat is a WRITE of no bytes, which the peer's NIC acknowledges without its application: a process that is stopped
or busy is alive, as rsockets' keepalive, too, takes it. If the process has ended, its queue pairs are gone and its NIC
says so; if the NIC or host is off, nothing answers until the timeout. Retransmissions go over all paths, so a dark
plane, loss or a flapping port costs an answer some milliseconds. The queue pairs are MRC's even if the group's data
goes over a baseline: whether a peer lives does not depend on one path. They never give up by themselves.

Who finds a rank lost reports it to the others in a notice; so all name the same rank, and none takes a rank that gave
up for the cause. A rank that leaves in order says how many operations it has done: what the others still have under way
of these can end without it.

Everything runs on the loop of :meth:`PeerMonitor.join`; a turn takes no time of the network.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mrc_host.errors import MrcError
from mrc_host.verbs import CompletionQueue, Context, Endpoint, ProtectionDomain, QueuePair
from mrc_host.verbs_types import Completion, CompletionOpcode, CompletionStatus, QpAttributes, WorkRequest, WrOpcode
from mrc_lab.errors import TransferError
from mrc_lab.workloads.collectives import Exchange
from mrc_lab.workloads.liveness.detector import MAX_UNANSWERED, SilenceDetector
from mrc_lab.workloads.liveness.peer_events import (
    LOSSES,
    LossReason,
    Notice,
    PeerEvent,
    PeerFailed,
    PeerLeft,
    PeerLost,
    loss_notice,
    parse_notice,
)
from mrc_lab.workloads.liveness.settings import CONNECT_S, LivenessSettings

_SECOND = 1_000_000_000
_REPORTS = 6  # of losses that one rank found; others learn of more when they find them themselves
_NOTICES = _REPORTS + 3  # to one peer: these, failing, retiring and leaving
# No congestion control, which would let data delay heartbeats; 255 retries are no limit.
_ATTRIBUTES = QpAttributes(retry_count=255, congestion_window=1 << 16)


@dataclass(frozen=True, slots=True)
class _Peer:
    rank: int
    host: str
    pair: QueuePair


def _not_isolated() -> bool:
    return False


class PeerMonitor:
    """Made by :meth:`join`; `on_event` is called with what happens to peers, a rank's loss once."""

    def __init__(
        self,
        exchange: Exchange,
        settings: LivenessSettings,
        host: str,
        resources: tuple[ProtectionDomain, CompletionQueue],
        peers: Sequence[_Peer],
        on_event: Callable[[PeerEvent], None],
        isolated: Callable[[], bool],
    ) -> None:
        self.rank, self.host = exchange.rank, host
        self._domain, self._queue = resources
        self._peers = {peer.rank: peer for peer in peers}
        self._ranks = {peer.pair.qpn: peer.rank for peer in peers}
        self._on_event = on_event
        self._isolated = isolated
        self._loop = asyncio.get_running_loop()
        period = settings.period(len(peers)) / _SECOND
        self._detector = SilenceDetector(self._peers, settings.timeout, 2 * settings.interval, self._now())
        self._lost: dict[int, PeerLost] = {}
        self._left: set[int] = set()
        self._reports = 0
        self._verdict = asyncio.Event()
        self._closed = False
        self.failure: MrcError | None = None  # of the own NIC, after which nothing is watched any more
        self._queue.listen(self._take_all)
        self._turns = self._loop.create_task(self._take_turns(period))

    @classmethod
    async def join(
        cls,
        device: Context,
        exchange: Exchange,
        settings: LivenessSettings,
        on_event: Callable[[PeerEvent], None],
        *,
        name: str = "liveness",
        isolated: Callable[[], bool] = _not_isolated,
    ) -> PeerMonitor:
        """Make a queue pair to every other rank of a group of two or more, exchange addresses under `name`, connect.

        `isolated` says whether all links of the own NIC are down. TransferError: a rank has come and did not connect.
        If joining fails or is cancelled nothing stays on the NIC.
        """
        rank, others = exchange.rank, [rank for rank in range(exchange.world) if rank != exchange.rank]
        domain = device.alloc_pd()
        queue = device.create_cq(2 * len(others) * (MAX_UNANSWERED + _NOTICES + 1))
        try:
            pairs = {peer: domain.create_qp(queue, queue, attributes=_ATTRIBUTES) for peer in others}
            addresses = [[peer, str(Endpoint(pair.address))] for peer, pair in pairs.items()]
            cards: list[Any] = await exchange.gather(f"{name}/cards", {"host": device.name, "pairs": addresses})
            for peer, pair in pairs.items():
                pair.connect(Endpoint.parse(dict(cards[peer]["pairs"])[rank]).qp)
            await _connected(exchange, name)
        except BaseException:
            _release(domain, queue)
            raise
        peers = [_Peer(peer, str(cards[peer]["host"]), pair) for peer, pair in pairs.items()]
        return cls(exchange, settings, device.name, (domain, queue), peers, on_event, isolated)

    @property
    def lost(self) -> tuple[PeerLost, ...]:
        """The ranks that are lost, in the order in which this one learned it."""
        return tuple(self._lost.values())

    async def verdict(self, within_s: float) -> PeerLost | None:
        """The first lost rank, known already or found within `within_s` seconds, in which it is looked for at once."""
        if not self._lost and not self._closed:
            self._verdict.clear()
            self._send_heartbeats()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._verdict.wait(), within_s)
        return next(iter(self._lost.values()), None)

    def report_failure(self) -> None:
        """Notify all peers that this rank has given up the group."""
        self._notify(Notice.FAILED.pack())

    def report_retirement(self, operations: int) -> None:
        """Notify all peers that this rank takes part in no operation after so many; they go on to watch each other."""
        self._notify(Notice.RETIRED.pack(operations))

    async def say_goodbye(self, operations: int, within_s: float) -> None:
        """Notify all peers that this rank leaves after so many operations, and wait for their NICs' answers."""
        if not self._closed:
            self._notify(Notice.LEFT.pack(operations))
            deadline = self._loop.time() + within_s
            while self._notices_unanswered() and self.failure is None and self._loop.time() < deadline:
                await asyncio.sleep(min(0.001, within_s))

    async def close(self) -> None:
        """Give everything back to the NIC. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        self._turns.cancel()
        self._queue.unlisten()
        self._verdict.set()
        _release(self._domain, self._queue)

    # Turns

    async def _take_turns(self, period_s: float) -> None:
        while True:
            await asyncio.sleep(period_s)
            self._take_all()  # before anybody is found silent
            if self.failure is not None:
                return
            self._detector.advance(self._now())
            self._find_silent()
            self._send_heartbeats()  # to all at once: hosts and switches wake up once for several

    def _find_silent(self) -> None:
        silent = self._detector.silent()
        if self._isolated():
            if silent:
                longest = max(map(self._detector.silence, silent))
                self._lose(PeerLost(self.rank, self.host, LossReason.ISOLATED, longest))
            if self.rank in self._lost:
                self._detector.excuse()  # once there are links again, peers have as long to answer as ever
            return
        for rank in silent:
            self._lose(self._loss(rank, LossReason.SILENT))

    def _send_heartbeats(self) -> None:
        for rank in self._detector.peers:
            if self._detector.may_send(rank):
                self._post(rank, None)

    def _notify(self, imm: int) -> None:
        for rank in self._detector.peers:
            self._post(rank, imm)

    def _post(self, rank: int, imm: int | None) -> None:
        opcode = WrOpcode.WRITE if imm is None else WrOpcode.WRITE_WITH_IMM
        try:
            self._peers[rank].pair.post_send([WorkRequest(imm or 0, opcode, 0, 0, 0, 0, 0, imm)])
        except MrcError:
            return  # an agent that accepts nothing now; if it is gone, taking completions says so
        self._detector.sent(rank)

    # Completions

    def _take_all(self) -> None:
        try:
            while self.failure is None and not self._closed and (completions := self._queue.poll()):
                for completion in completions:
                    self._take(completion)
        except MrcError as error:
            self.failure = error
            self._lose(PeerLost(self.rank, self.host, LossReason.NO_AGENT, 0))

    def _take(self, completion: Completion) -> None:
        rank = self._ranks[completion.qpn]
        if completion.opcode is CompletionOpcode.RECV_WRITE_WITH_IMM:
            self._take_notice(rank, completion.imm or 0)
        elif completion.status is CompletionStatus.SUCCESS:
            self._detector.answered(rank)
        elif completion.status is not CompletionStatus.FLUSHED:
            self._lose(self._loss(rank, LossReason.GONE))

    def _take_notice(self, sender: int, imm: int) -> None:
        notice = parse_notice(imm)
        if notice is None:
            return  # of a later version
        kind, value = notice
        host = self._peers[sender].host
        if kind in (Notice.LEFT, Notice.RETIRED):
            if kind is Notice.LEFT:
                self._detector.forget(sender)
                self._left.add(sender)
            self._on_event(PeerLeft(sender, host, value))
        elif kind is Notice.FAILED:
            self._on_event(PeerFailed(sender, host))
        elif value == self.rank or value in self._peers:
            self._lose(self._loss(value, LOSSES[kind], sender))

    # Losses

    def _loss(self, rank: int, reason: LossReason, reporter: int | None = None) -> PeerLost:
        if rank == self.rank:
            return PeerLost(rank, self.host, reason, 0, reporter)
        self._detector.advance(self._now())
        return PeerLost(rank, self._peers[rank].host, reason, self._detector.silence(rank), reporter)

    def _lose(self, loss: PeerLost) -> None:
        """Keep the loss of a rank, report it to the others, and watch it no longer."""
        if loss.rank in self._lost or loss.rank in self._left:
            return
        self._lost[loss.rank] = loss
        self._detector.forget(loss.rank)
        self._verdict.set()
        if loss.reporter is None and self._reports < _REPORTS and loss.reason is not LossReason.NO_AGENT:
            self._reports += 1
            self._notify(loss_notice(loss))
        self._on_event(loss)

    def _notices_unanswered(self) -> bool:
        return any(self._detector.unanswered(rank) for rank in self._detector.peers)

    def _now(self) -> int:
        return round(self._loop.time() * _SECOND)


async def _connected(exchange: Exchange, name: str) -> None:
    """Wait for all ranks to connect: those that have given their addresses are about to."""
    try:
        await asyncio.wait_for(exchange.gather(f"{name}/connected", True), CONNECT_S)
    except asyncio.TimeoutError:
        raise TransferError(f"a rank has given its addresses but did not connect within {CONNECT_S:g} s") from None


def _release(*parts: ProtectionDomain | CompletionQueue) -> None:
    for part in parts:
        with contextlib.suppress(MrcError):  # an agent that is gone has done so
            part.close()
