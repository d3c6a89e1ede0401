"""Records of runs that never happened, for tests of what is computed from them."""

from mrc_host.verbs_types import PathEvent, PathReason, PathState
from mrc_lab.demo.faults import LinkCut
from mrc_lab.demo.record import RankPathEvent, RunRecord
from topologies.addressing import entropy_value
from topologies.clos import multi_plane_clos
from topologies.fabric import LinkKind

FABRIC = multi_plane_clos(planes=2, t0=2, t1=4, hosts=4)
HOSTS = ("h1", "h2", "h3", "h4")
MS = 1_000_000


def step_report(step, begin_ms, end_ms, crc=1):
    return {
        "kind": "step",
        "step": step,
        "begin_ns": begin_ms * MS,
        "end_ns": end_ms * MS,
        "compute_ns": MS,
        "loss": 2.0 / (step + 1),
        "accuracy": 0.5,
        "crc": crc,
    }


def record(transport="mrc", spans=(), *, planned=None, started_ms=1000, finished=True):
    """A run of four hosts whose step s lasts from spans[s][0] to spans[s][1] ms on the slowest rank."""
    value = RunRecord(transport, HOSTS, len(spans) if planned is None else planned, started_ms * MS)
    for rank in range(4):
        value.take(rank, {"kind": "joined", "to_next": 10 * rank + 1, "to_previous": 10 * rank + 2})
    for step, (begin, end) in enumerate(spans):
        for rank in range(4):
            value.take(rank, step_report(step, begin, end - (rank != 2)))
    for rank in range(4):
        counters = {"data_sent": 100, "lost": rank, "retransmitted": 2 * rank}
        transfer = {"chunks": 1, "bytes": 1000, "wrong_chunks": 0, "wrong_bytes": 0}
        status = {"counters": counters, "transfer": transfer, "paths_in_use": 7, "paths": 8, "time_ns": 0}
        value.take(rank, {"kind": "status", **status})
        value.take(rank, {"kind": "pattern", "round": 0, "checked": 300, "wrong": 0})
        if finished:
            value.take(rank, {"kind": "done", "weights_crc": 5, "held_out_correct": 3})
    value.ended_ns = (spans[-1][1] if spans else started_ms) * MS
    return value


def fault(link, cut_ms, mended_ms, step=0):
    kind = LinkKind.NIC_T0 if link.startswith("h") else LinkKind.T0_T1
    return LinkCut(kind, link, step, cut_ms * MS, None if mended_ms is None else mended_ms * MS)


def path_event(at_ms, new, *, rank=1, to_next=True, plane=0, uplink=1, loss_ms=None, reason=PathReason.LOSS):
    """By default of h2's queue pair to h3, which crosses between the T0s."""
    old = PathState.GOOD if new is not PathState.GOOD else PathState.ASSUMED_BAD
    qpn = 10 * rank + (1 if to_next else 2)
    loss = None if loss_ms is None else int(loss_ms * MS)
    event = PathEvent(int(at_ms * MS), qpn, entropy_value(plane, uplink), plane, old, new, reason, loss)
    return RankPathEvent(rank, event)
