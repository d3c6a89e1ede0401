"""Counters of a NIC by the names of docs/counters.md: its own, those of its queue pairs together, those of each port.

The NIC counts frames and drops itself; frames that the simulation's core gave to the datapath in C are counted there,
and added here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.pause import Pauses
from mrc_host.transport.peer_table import PeerTable
from mrc_host.transport.qp import NicQueuePair
from mrc_host.transport.stats import QpStats
from mrc_host.wire.encap import Drop

_PER_STEP: Final = 64  # queue pairs


class NicStats:
    """The NIC increments `drops` and `ports`, and adds the statistics of destroyed queue pairs to `gone`."""

    __slots__ = ("_nic", "_pauses", "_peers", "_qps", "drops", "gone", "ports")

    def __init__(self, nic: NicContext, qps: dict[int, NicQueuePair], peers: PeerTable, pauses: Pauses | None) -> None:
        """`qps` is the NIC's own, in which queue pairs come and go."""
        self._nic = nic
        self._qps = qps
        self._peers = peers
        self._pauses = pauses
        self.drops = dict.fromkeys(Drop, 0)
        self.ports = nic.port_stats
        self.gone = QpStats()

    def frames(self) -> dict[str, int]:
        """Frames, their bytes, drops by reason, events lost; with flow control, pauses (`Nic.nic_counters`)."""
        received = [self._received(port) for port in range(len(self.ports))]
        counters = {
            "rx_frames": sum(frames for frames, _ in received),
            "rx_bytes": sum(size for _, size in received),
            "tx_frames": sum(stats.tx_frames for stats in self.ports),
            "tx_bytes": sum(stats.tx_bytes for stats in self.ports),
            "events_lost": self._nic.events_lost,
        }
        if self._pauses is not None:
            counters["pauses_received"] = self._pauses.received
            counters["paused_ns"] = self._pauses.paused_ns
        counters.update((f"drop_{reason.value}", count) for reason, count in self.drops.items())
        return counters

    def total(self, now: int) -> dict[str, int]:
        """All counters and gauges of the NIC, with those of all queue pairs that ever existed."""
        return dict(next(counters for counters in self.sum_up(now) if counters is not None))

    def sum_up(self, now: int) -> Iterator[Mapping[str, int] | None]:
        """The same in steps, each of which takes some queue pairs: None after each, and in the end the counters.

        What a queue pair has counted is not lost if it is destroyed meanwhile: the list has it until its step.
        """
        total = QpStats()
        total.add(self.gone)
        inflight = 0
        for taken, qp in enumerate(list(self._qps.values()), 1):
            qp.settle_stats(now)
            total.add(qp.stats)
            inflight += qp.inflight()
            if not taken % _PER_STEP:
                yield None
        read = total.read()
        read["inflight_bytes"] = inflight
        read["queue_pairs"] = len(self._qps)
        read.update(pauses_received=0, paused_ns=0)
        read.update(self.frames())
        yield read

    def of_ports(self) -> tuple[dict[str, int], ...]:
        """All counters and gauges of each port."""
        return tuple(self._of_port(port) for port in range(len(self.ports)))

    def _of_port(self, port: int) -> dict[str, int]:
        nic, stats = self._nic, self.ports[port]
        peers = [peer for peer in self._peers.made() if peer.users]
        rx_frames, rx_bytes = self._received(port)
        return {
            "rx_frames": rx_frames,
            "rx_bytes": rx_bytes,
            "tx_frames": stats.tx_frames,
            "tx_bytes": stats.tx_bytes,
            "tx_plane_retransmitted_packets": nic.retransmitted_by_plane[port],
            "tx_plane_lost_packets": nic.lost_by_plane[port],
            "tx_plane_waited_ns": nic.waited_by_plane[port],
            "link_downed": stats.downed,
            "link_recovered": stats.recovered,
            "link_up": nic.local_up >> port & 1,
            "slow": nic.slow_ports.slow >> port & 1,
            "slow_peers": sum(peer.planes.slow_ports.slow >> port & 1 for peer in peers),
            "retired": nic.slow_ports.retired >> port & 1,
            "retired_peers": sum(peer.planes.slow_ports.retired >> port & 1 for peer in peers),
            "paths": sum(len(peer.paths.members[port]) for peer in peers),
            "paths_assumed_bad": sum(peer.probes.bad.of_plane[port] for peer in peers),
            "paths_denied": sum(peer.paths.denied.of_plane[port] for peer in peers),
        }

    def _received(self, port: int) -> tuple[int, int]:
        """Frames and bytes."""
        stats = self.ports[port]
        frames, size = self._nic.datapath.receiver.unseen(port)
        return stats.rx_frames + frames, stats.rx_bytes + size
