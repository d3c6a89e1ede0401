"""Collective operations on numpy arrays, made of WRITE and WRITE_WITH_IMM between the ranks' registered memory."""

from mrc_lab.workloads.collectives.bfloat16 import Bfloat16
from mrc_lab.workloads.collectives.communicator import Communicator, TransferCounters
from mrc_lab.workloads.collectives.hierarchical import HierarchicalCommunicator
from mrc_lab.workloads.collectives.messages import Messages
from mrc_lab.workloads.collectives.out_of_band import Exchange, LocalMeeting
from mrc_lab.workloads.collectives.pacing import PacingSettings
from mrc_lab.workloads.collectives.reduction import ReduceOp, Reduction, ring_reduce
from mrc_lab.workloads.collectives.rendezvous import Rendezvous, RendezvousServer
from mrc_lab.workloads.collectives.ring import Ring, RingSettings, ring_sum
from mrc_lab.workloads.collectives.settings import Peers, StreamSettings
from mrc_lab.workloads.collectives.verify import PatternCheck, verify_pattern

__all__ = [
    "Bfloat16",
    "Communicator",
    "Exchange",
    "HierarchicalCommunicator",
    "LocalMeeting",
    "Messages",
    "PacingSettings",
    "PatternCheck",
    "Peers",
    "ReduceOp",
    "Reduction",
    "Rendezvous",
    "RendezvousServer",
    "Ring",
    "RingSettings",
    "StreamSettings",
    "TransferCounters",
    "ring_reduce",
    "ring_sum",
    "verify_pattern",
]
