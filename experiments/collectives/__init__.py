"""Collective operations on numpy arrays, made of WRITE and WRITE_WITH_IMM between the ranks' registered memory."""

from experiments.collectives.communicator import Communicator, TransferCounters
from experiments.collectives.exchange import Exchange, LocalMeeting
from experiments.collectives.reduction import ReduceOp, ring_reduce
from experiments.collectives.rendezvous import Rendezvous, RendezvousServer
from experiments.collectives.ring import Ring, RingSettings, ring_sum
from experiments.collectives.settings import Peers, StreamSettings
from experiments.collectives.verify import PatternCheck, verify_pattern

__all__ = [
    "Communicator",
    "Exchange",
    "LocalMeeting",
    "PatternCheck",
    "Peers",
    "ReduceOp",
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
