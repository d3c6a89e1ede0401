"""Samples of a small fabric, for tests of `mrc top`."""

from controller.values import LinkEndInfo, LinkStatus
from mrc_host.verbs.remote.agent_verbs import QueuePairInfo
from mrc_host.verbs_types import PathInfo, PathState, QpCounters, QpState, QpType
from mrc_lab.top.sampling import HostSample, QueuePairSample, Sample
from topologies.emulation.link_counters import Traffic
from topologies.fabric import LinkKind

SECOND = 1_000_000_000


def link(name, plane=0, up=True, upward=0, downward=0, faults=(), time=0, kind=LinkKind.NIC_T0):
    end = LinkEndInfo("a", 1, "eth0")
    traffic = Traffic(0, upward), Traffic(0, downward)
    return LinkStatus(name, kind, plane, end, end, 100_000_000, up, *traffic, tuple(faults), time)


def path(ev, state=PathState.GOOD, sent=0, lost=0, plane=0, rtt=120_000):
    return PathInfo(ev, plane, state, True, sent, lost, 0, 0, rtt)


def pair(qpn, paths=(), sent=0, lost=0, remote="h3:41", kind=QpType.MRC):
    counters = QpCounters(data_sent=sent, lost=lost)
    return QueuePairSample(QueuePairInfo(qpn, "test (1)", kind, remote, QpState.RTS, counters), tuple(paths))


def host(*pairs, time=0, problem="", left_out=0):
    return HostSample(time, tuple(pairs), problem, left_out)


def sample(links=(), problem="", **hosts):
    return Sample(tuple(links), hosts, problem)
