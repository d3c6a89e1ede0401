"""Liveness of the ranks of a group: who has died, and how others learn it within a bounded time, over verbs alone."""

from mrc_lab.workloads.liveness.monitor import PeerMonitor
from mrc_lab.workloads.liveness.peer_events import LossReason, PeerEvent, PeerFailed, PeerLeft, PeerLost
from mrc_lab.workloads.liveness.settings import CONNECT_S, LivenessSettings

__all__ = [
    "CONNECT_S",
    "LivenessSettings",
    "LossReason",
    "PeerEvent",
    "PeerFailed",
    "PeerLeft",
    "PeerLost",
    "PeerMonitor",
]
