"""What hosts are configured with of the fabric they are in: base RTT, congestion control, trimming."""

from dataclasses import replace

from mrc_host.config import ProtocolSettings, TransportSettings
from mrc_host.transport.algorithms import choose
from mrc_host.verbs_types import NsccProfile, QpAttributes
from topologies.clos import multi_plane_clos
from topologies.emulation.transport_timers import PROCESSES_NS, fitted
from topologies.queues import QueueProfile
from topologies.round_trip import base_round_trip


def fabric(**transport):
    settings = ProtocolSettings(transport=TransportSettings(**transport))
    return multi_plane_clos("t", planes=2, t0=2, t1=2, hosts=4, rate_bps=25_000_000, settings=settings)


def test_hosts_are_configured_with_a_base_rtt_and_nscc():
    given = fitted(fabric()).settings.transport
    assert given.base_rtt == base_round_trip(fabric()) + PROCESSES_NS
    assert given.nscc.base_rtt_floor == given.base_rtt, "one lucky packet says nothing"
    assert choose(QpAttributes(), given, True) == "nscc"


def test_settings_of_the_fabric_are_kept():
    assert fitted(fabric(base_rtt=5)).settings.transport.base_rtt == 5
    profile = NsccProfile(base_rtt_floor=7, gamma=0.5)
    assert fitted(fabric(nscc=profile)).settings.transport.nscc == profile
    assert fitted(fabric(congestion="fixed", plane_skew_limit=3)).settings.transport.congestion == "fixed"


def test_hosts_know_whether_switches_trim():
    assert fitted(fabric()).settings.transport.trimming
    assert not fitted(replace(fabric(), queues=QueueProfile(trimming=False))).settings.transport.trimming
