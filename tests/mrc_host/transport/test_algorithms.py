"""Which congestion control a queue pair gets."""

import pytest

from mrc_host.config import TransportSettings
from mrc_host.errors import InvalidArgumentError
from mrc_host.transport.algorithms import ALGORITHMS, Algorithm, check, choose, find
from mrc_host.transport.congestion import CongestionControl, LinkParameters
from mrc_host.transport.dcqcn import Dcqcn
from mrc_host.transport.nscc import Nscc, NsccProfile
from mrc_host.verbs_types import QpAttributes

KNOWN = TransportSettings(base_rtt=12_000)


@pytest.mark.parametrize(
    ("attributes", "settings", "mrc", "name"),
    [
        ({}, {}, True, "fixed"),
        ({}, {"base_rtt": 12_000}, True, "nscc"),
        ({}, {"base_rtt": 12_000, "congestion": "fixed"}, True, "fixed"),
        ({}, {"congestion": "none"}, True, "none"),
        ({"congestion_window": 9000}, {"base_rtt": 12_000}, True, "fixed"),
        ({"congestion_window": 9000}, {"congestion": "none"}, True, "none"),
        ({"cc_profile": "none"}, {"base_rtt": 12_000}, True, "none"),
        ({"cc_profile": "nscc"}, {"congestion": "fixed"}, True, "nscc"),
        ({}, {"base_rtt": 12_000}, False, "fixed"),
        ({}, {"rc_congestion": "dcqcn"}, False, "dcqcn"),
        ({"congestion_window": 9000}, {"rc_congestion": "dcqcn"}, False, "dcqcn"),
        ({"cc_profile": "none"}, {"rc_congestion": "dcqcn"}, False, "none"),
    ],
)
def test_congestion_control_is_chosen_by_queue_pair_then_window_then_nic(attributes, settings, mrc, name):
    assert choose(QpAttributes(**attributes), TransportSettings(**settings), mrc) == name


@pytest.mark.parametrize(
    ("attributes", "settings", "mrc", "message"),
    [
        ({"cc_profile": "quantum"}, {}, True, "Unknown congestion control 'quantum': use 'nscc', 'fixed' or 'none'"),
        ({"cc_profile": "nscc"}, {"base_rtt": 1}, False, "not for an RC queue pair: use 'dcqcn', 'fixed' or 'none'"),
        ({"cc_profile": "dcqcn"}, {}, True, "not for an MRC queue pair: use 'nscc', 'fixed' or 'none'"),
        ({"cc_profile": "nscc"}, {}, True, "set base_rtt"),
        ({}, {"congestion": "nscc"}, True, "set base_rtt"),
        ({"cc_profile": "nscc", "congestion_window": 9000}, {"base_rtt": 1}, True, "leave one of them out"),
        ({}, {"base_rtt": 12_000, "nscc": NsccProfile(gamma=2.0)}, True, "gamma must be in 0..1"),
    ],
)
def test_unavailable_algorithms_are_refused(attributes, settings, mrc, message):
    with pytest.raises(InvalidArgumentError, match=message):
        check(ALGORITHMS, QpAttributes(**attributes), TransportSettings(**settings), mrc, {})


def test_every_default_algorithm_is_available():
    for mrc in (True, False):
        for settings in (TransportSettings(), KNOWN):
            check(ALGORITHMS, QpAttributes(), settings, mrc, {})


def test_a_controller_is_tried_once_for_all_queue_pairs_until_its_name_means_another():
    made = []

    def make(link):
        made.append(link)
        return CongestionControl(link.window)

    known = {"mine": Algorithm(make)}
    tried = {}
    for _ in range(3):
        check(known, QpAttributes(cc_profile="mine"), TransportSettings(), True, tried)
    assert len(made) == 1

    def refuse(_link):
        raise InvalidArgumentError("this one cannot be made")

    known["mine"] = Algorithm(refuse)
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="cannot be made"):
            check(known, QpAttributes(cc_profile="mine"), TransportSettings(), True, tried)


def test_controllers_are_scaled_to_the_link_rate():
    line = LinkParameters(rate_bps=100_000_000_000, base_rtt=12_000, mtu=4096, window=65_536)
    nscc = ALGORITHMS["nscc"].make(line)
    assert isinstance(nscc, Nscc)
    assert nscc.cwnd == 225_000
    dcqcn = ALGORITHMS["dcqcn"].make(line)
    assert isinstance(dcqcn, Dcqcn)
    assert (dcqcn.rate, dcqcn.cwnd) == (line.rate_bps, line.window)
    assert ALGORITHMS["fixed"].make(line).cwnd == line.window
    assert ALGORITHMS["none"].make(line).cwnd > 1 << 40


def test_registered_algorithms_are_found_beside_the_built_in_ones():
    mine = {**ALGORITHMS, "mine": Algorithm(lambda line: CongestionControl(line.mtu), shared=True)}
    assert find(mine, "mine", True).shared
    with pytest.raises(InvalidArgumentError, match="'none' or 'mine'"):
        find(mine, "other", True)
