"""The counters for operators: every name, unit and meaning, declared once (docs/counters.md is generated from this).

A counter has a *level*: a queue pair, the NIC, or one of its ports (port N is the NIC's end of plane N). What a queue
pair counts is also added up for the NIC, and stays there when the queue pair is reset, fails or is destroyed; a *gauge*
is a current value. Names are stable; where `rdma statistic`, the files ``hw_counters`` of an RDMA device or ``ethtool
-S`` have a name for the same thing, that name is used. Counters never decrease while the NIC lives; durations are
counters of nanoseconds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mrc_host.wire.control import NACK_NAMES
from mrc_host.wire.encap import Drop

NACK_SLOTS: Final = 32  # NACKs are counted by reason in a list; reasons have five bits
RTT_BUCKETS: Final = 24  # below 1 us, below 2 us, ... below 2^22 us, and the rest


class Level(enum.Enum):
    """What a counter belongs to."""

    QP = "queue pair"
    NIC = "NIC"
    PORT = "port"


@dataclass(frozen=True, slots=True)
class CounterInfo:
    """One counter: `name`, `unit`, `meaning` in one sentence, `levels` at which it is read, whether it is a `gauge`.

    `source` is the attribute of the queue pair's statistics that holds it, "" if it is derived.
    """

    name: str
    unit: str
    meaning: str
    levels: frozenset[Level]
    gauge: bool = False
    source: str = ""


_QP: Final = frozenset({Level.QP, Level.NIC})  # of queue pairs, and summed for the NIC


def _counted() -> Iterable[CounterInfo]:
    """Counters of queue pairs, by attribute of their statistics."""
    for name, unit, source, meaning in (
        ("tx_data_packets", "packets", "data_sent", "Data packets sent for the first time."),
        ("tx_retransmitted_packets", "packets", "retransmitted", "Data packets sent again."),
        ("tx_spurious_retransmitted_packets", "packets", "spurious_retransmitted",
         "Data packets sent again although an earlier copy had arrived."),
        ("tx_lost_packets", "packets", "lost",
         "Data packets declared lost, by SACK, NACK, timeout or a port that went down."),
        ("tx_late_packets", "packets", "late",
         "Data packets declared lost that arrived after all, before they were sent again (MRC). They are also in"
         " tx_lost_packets."),
        ("rx_data_packets", "packets", "data_received", "Data packets that arrived and were placed in memory."),
        ("rx_write_requests", "messages", "write_requests", "Completed WRITE and WRITE_WITH_IMM messages of the peer."),
        ("duplicate_request", "packets", "duplicates_received", "Data packets that had arrived before."),
        ("out_of_sequence", "packets", "out_of_order_received",
         "Data packets that arrived ahead of others: normal for MRC, which sprays; for RC a sign of loss."),
        ("packet_seq_err", "answers", "sequence_errors",
         "Answers of the peer that request retransmission: NACK (MRC) or NAK sequence error (RC)."),
        ("rnr_nak_received", "answers", "rnr_received", "Answers of the peer that report a full receive CQ (RC)."),
        ("local_ack_timeout_err", "timeouts", "timeouts", "ACK timeouts of the requester."),
        ("retry_exceeded_err", "queue pairs", "retry_exceeded", "Queue pairs that failed after their last retry."),
        ("req_remote_access_errors", "queue pairs", "remote_access_errors",
         "Queue pairs that failed because the peer refused rkey, range or rights."),
        ("req_remote_operation_errors", "queue pairs", "remote_operation_errors",
         "Queue pairs that failed because the peer could not carry out a request, or takes none."),
        ("req_local_protection_errors", "queue pairs", "local_protection_errors",
         "Queue pairs that failed because a request's local range is not registered."),
        ("resp_remote_access_errors", "queue pairs", "access_refused",
         "Queue pairs that failed because this NIC refused the peer's rkey, range or rights."),
        ("resp_remote_operation_errors", "queue pairs", "operation_refused",
         "Queue pairs that failed because the peer exceeded the agreed limits, violated the protocol, or wrote although"
         " the queue pair takes no writes."),
        ("np_ecn_marked_roce_packets", "packets", "marks_received", "Data packets that arrived with an ECN mark (CE)."),
        ("np_cnp_sent", "packets", "cnps_sent", "Congestion notifications sent (RC with DCQCN)."),
        ("rp_cnp_handled", "packets", "cnps_received", "Congestion notifications received and acted on (RC)."),
        ("rp_ecn_marks_handled", "SACKs", "marks_reported", "SACKs received for ECN-marked packets (MRC)."),
        ("rx_trimmed_packets", "packets", "trims_received",
         "Data packets that arrived trimmed, by a switch before the last hop."),
        ("rx_trimmed_lasthop_packets", "packets", "lasthop_trims_received",
         "Data packets that arrived trimmed, by the last switch before this NIC."),
        ("tx_sacks", "packets", "sacks_sent", "SACKs sent."),
        ("rx_sacks", "packets", "sacks_received", "SACKs received, except those for packets never sent."),
        ("tx_reliability_probes", "packets", "probes_sent", "Reliability probes sent."),
        ("rx_reliability_probes", "packets", "probes_received", "Reliability probes received."),
        ("cq_full_ns", "ns", "cq_full_ns", "Time for which a completed message waited for room in the receive CQ."),
        ("cq_full_events", "times", "cq_full_events", "How often a completed message found the receive CQ full."),
        ("rtt_sum_ns", "ns", "rtt_sum", "Sum of all round-trip times measured (MRC)."),
    ):  # fmt: skip
        yield CounterInfo(name, unit, meaning, _QP, source=source)


def _derived() -> Iterable[CounterInfo]:
    """Counters of queue pairs that are derived from others."""
    yield CounterInfo("bytes_completed", "bytes", "Payload of requests of this end that completed successfully.", _QP)
    yield CounterInfo("tx_acks", "packets", "Transport ACKs and NAKs sent.", _QP)
    yield CounterInfo("rx_acks", "packets", "Transport ACKs and NAKs received.", _QP)
    for way, verb in (("tx", "sent"), ("rx", "received")):
        yield CounterInfo(f"{way}_nacks", "packets", f"NACKs {verb}, for any reason.", _QP)
        for name in NACK_NAMES.values():
            yield CounterInfo(f"{way}_nack_{name}", "packets", f"NACKs {verb} with reason {name.upper()}.", _QP)
    for kind, what in (
        ("window", "the congestion window is full"),
        ("peer", "the peer accepts no more: range of PSNs, WRITE_WITH_IMM in flight, limit of a slow receiver"),
        ("paths", "no plane or path is usable"),
    ):
        yield CounterInfo(f"tx_stalled_{kind}_ns", "ns", f"Time for which data waited because {what} (MRC).", _QP)
    yield CounterInfo("rtt_samples", "samples", "Round-trip times measured: the sum of the histogram.", _QP)
    for bucket in range(RTT_BUCKETS):
        yield CounterInfo(rtt_name(bucket), "samples", f"Round-trip times {_rtt_range(bucket)}.", _QP)


def rtt_name(bucket: int) -> str:
    """Name of one bucket of the histogram of round-trip times: rtt_lt_1us, rtt_lt_2us, ... rtt_ge_4194304us."""
    last = bucket == RTT_BUCKETS - 1
    return f"rtt_ge_{1 << bucket - 1}us" if last else f"rtt_lt_{1 << bucket}us"


def _rtt_range(bucket: int) -> str:
    if bucket == RTT_BUCKETS - 1:
        return f"of {1 << bucket - 1} us and more"
    return f"of {1 << bucket - 1} to {1 << bucket} us" if bucket else "below 1 us"


def _gauges() -> Iterable[CounterInfo]:
    """Gauges of queue pairs."""
    qp = frozenset({Level.QP})
    yield CounterInfo("inflight_bytes", "bytes", "Data in flight, as the congestion window counts it.", _QP, gauge=True)
    for name, unit, meaning in (
        ("cwnd_bytes", "bytes", "Congestion window; queue pairs to one NIC may share it."),
        ("cwnd_used_bytes", "bytes", "Data in flight of all queue pairs that share the window."),
        ("receiver_limit_bytes", "bytes", "Limit set by a slow receiver, below the window; 0 for none."),
        ("base_rtt_ns", "ns", "Round-trip time without queues, mean of all paths; 0 without NSCC."),
        ("average_delay_ns", "ns", "NSCC's average queueing delay; 0 without NSCC."),
        ("paths_good", "paths", "Paths in state GOOD."),
        ("paths_skip", "paths", "Paths in state SKIP."),
        ("paths_assumed_bad", "paths", "Paths in state ASSUMED_BAD."),
        ("paths_denied", "paths", "Paths denied by the controller."),
    ):
        yield CounterInfo(name, unit, meaning, qp, gauge=True)


def _of_nic() -> Iterable[CounterInfo]:
    nic, both, port = frozenset({Level.NIC}), frozenset({Level.NIC, Level.PORT}), frozenset({Level.PORT})
    yield CounterInfo("queue_pairs", "queue pairs", "Queue pairs that exist.", nic, gauge=True)
    for way, verb in (("rx", "received"), ("tx", "sent")):
        yield CounterInfo(f"{way}_frames", "frames", f"Ethernet frames {verb}.", both)
        yield CounterInfo(f"{way}_bytes", "bytes", f"Bytes of these frames, without FCS, {verb}.", both)
    yield CounterInfo("events_lost", "events", "Asynchronous events dropped as nobody fetched them in time.", nic)
    yield CounterInfo("pauses_received", "frames", "PAUSE frames obeyed (with flow control).", nic)
    yield CounterInfo("paused_ns", "ns", "Time for which PAUSE kept ports from sending data, summed over ports.", nic)
    for drop in Drop:
        yield CounterInfo(f"drop_{drop.value}", "frames", f"Frames dropped: {drop.value.replace('_', ' ')}.", nic)
    for name, unit, meaning, gauge in (
        ("tx_plane_retransmitted_packets", "packets", "Data packets of MRC retransmitted on this plane.", False),
        ("tx_plane_lost_packets", "packets", "Data packets of MRC sent on this plane and declared lost.", False),
        ("tx_plane_waited_ns", "ns",
         "Time for which data of MRC that could have left on other ports waited for this one, summed over queue pairs.",
         False),
        ("link_downed", "times", "How often the port lost its link.", False),
        ("link_recovered", "times", "How often the port got its link back.", False),
        ("link_up", "0 or 1", "Whether the port has a link.", True),
        ("slow", "0 or 1", "Whether the port is slower than the others, which wait for it (MRC).", True),
        ("slow_peers", "NICs", "NICs whose port on this plane, or the plane on the way, is slower than others.", True),
        ("retired", "0 or 1", "Whether the port carries no new data for being slow (`slow_port_retry`).", True),
        ("retired_peers", "NICs", "NICs to which this plane carries no new data for being slow.", True),
        ("paths", "paths", "Paths on this plane to all NICs to which there are queue pairs.", True),
        ("paths_assumed_bad", "paths", "Of these, paths that some queue pair considers bad.", True),
        ("paths_denied", "paths", "Of these, paths denied by the controller.", True),
    ):  # fmt: skip
        yield CounterInfo(name, unit, meaning, port, gauge)


COUNTED: Final = tuple(_counted())
COUNTERS: Final = (*COUNTED, *_derived(), *_gauges(), *_of_nic())


def at_level(level: Level) -> tuple[CounterInfo, ...]:
    """The counters that are read at `level`, in the order of the table."""
    return tuple(info for info in COUNTERS if level in info.levels)
