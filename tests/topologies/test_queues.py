from __future__ import annotations

import pytest

from mrc_common.p4_match import Exact
from topologies import loader
from topologies.clos import multi_plane_clos
from topologies.entries import TableAction, switch_entries
from topologies.errors import FabricError
from topologies.fabric import Fabric, LinkEnd, LinkKind
from topologies.queues import QueueProfile

G = 10**9


def profiles(fabric: Fabric, table: str) -> dict[tuple[str, int], TableAction]:
    """Entries of a table of all switches, by switch and port."""
    return {
        (switch.name, entry.match[0].value): entry.target  # type: ignore[misc]
        for switch in fabric.switches
        for entry in switch_entries(fabric, switch).entries
        if entry.table == table
    }


def last_hop(fabric: Fabric, key: tuple[str, int]) -> bool:
    link = fabric.link_at(LinkEnd(*key))
    assert link is not None
    return link.kind is LinkKind.NIC_T0


def test_at_real_rates_thresholds_are_fractions_of_the_bdp() -> None:
    profile = QueueProfile()
    assert profile.product(100 * G, 4500) == 150_000  # Ultra Ethernet's reference: 100 Gb/s and 12 us
    assert profile.bytes_at(profile.trim_lasthop, 100 * G, 4500) == 225_000
    assert profile.frames_at(profile.ecn_low, 800 * G, 4500) == 240_000 // 4514


def test_at_scaled_down_rates_thresholds_are_full_frames() -> None:
    assert QueueProfile().product(25_000_000, 4500) == 32 * 4514
    assert QueueProfile(least_frames=1).frames_at(20, 1_000_000, 4500) == 1


def test_a_queue_has_room_for_more_than_the_limit() -> None:
    profile = QueueProfile()
    for rate in (25_000_000, 100 * G, 800 * G):
        assert profile.queue_frames(rate, 4500, 8) * 4514 > profile.bytes_at(profile.limit, rate, 4500)


def test_with_flow_control_a_queue_holds_the_headroom_of_all_ports() -> None:
    profile = QueueProfile(pfc=True)
    each = profile.bytes_at(profile.pfc_xoff + profile.pfc_headroom, 100 * G, 4500)
    for ports in (4, 32):
        assert profile.data_limit(100 * G, 4500, ports) >= ports * each
        assert profile.queue_frames(100 * G, 4500, ports) * 4514 > ports * each


def test_every_port_has_a_profile_and_only_the_last_hop_differs() -> None:
    fabric = multi_plane_clos(rate_bps=100 * G)
    dscp = fabric.settings.dscp
    ports = profiles(fabric, "queue_profile")
    assert len(ports) == sum(len(switch.ports) for switch in fabric.switches)
    for key, action in ports.items():
        args = dict(action.args)
        assert action.name == "trim"
        assert args["limit"] == 750_000
        assert args["keep"] == 108
        expected = (225_000, dscp.trimmed_lasthop) if last_hop(fabric, key) else (150_000, dscp.trimmed)
        assert (args["threshold"], args["dscp"]) == expected


def test_ports_facing_a_nic_never_mark() -> None:
    fabric = multi_plane_clos()
    marking = profiles(fabric, "ecn_profile")
    assert marking
    assert not any(last_hop(fabric, key) for key in marking)
    every = profiles(fabric, "queue_profile")
    assert {key for key in every if not last_hop(fabric, key)} == set(marking)
    assert all(dict(action.args) == {"start": 6, "width": 19} for action in marking.values())


def test_only_data_and_retransmissions_are_trimmable() -> None:
    fabric = multi_plane_clos()
    dscp, port = fabric.settings.dscp, fabric.settings.udp_port
    found = {entry.match for entry in switch_entries(fabric, fabric.switches[0]).entries if entry.table == "trimmable"}
    assert found == {(Exact(dscp.trimmable), Exact(port)), (Exact(dscp.retransmit), Exact(port))}


def test_trimming_and_ecn_can_be_disabled() -> None:
    quiet = multi_plane_clos(queues=QueueProfile(trimming=False, ecn=False))
    assert {action.name for action in profiles(quiet, "queue_profile").values()} == {"tail_drop"}
    assert not profiles(quiet, "ecn_profile")
    assert not profiles(quiet, "trimmable")


def test_each_switch_has_its_own_hash_seed() -> None:
    fabric = multi_plane_clos(planes=2, t0=4, t1=4)
    seeds = {
        entry.target for switch in fabric.switches for entry in switch_entries(fabric, switch).entries
        if entry.table == "ecmp_seed"
    }  # fmt: skip
    assert len(seeds) == len(fabric.switches)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ecn_low": 80}, "ecn_low .80. must be below ecn_high .80."),
        ({"ecn_low": 0}, "ecn_low is 0, but must be 1 to 10000"),
        ({"trim_lasthop": 500}, "trimming must begin below the limit of 500 percent"),
        ({"trim_keep": 64}, "trim_keep is 64, but must be 108 to 124"),
        ({"trim_keep": 110}, "trim_keep is 110, but must be 108 or 124"),
        ({"least_frames": 0}, "least_frames is 0"),
        ({"base_rtt_ns": -1}, "base_rtt_ns is -1"),
    ],
)
def test_invalid_profiles_are_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(FabricError, match=message):
        QueueProfile(**wrong)  # type: ignore[arg-type]


def test_a_fabric_file_can_set_profiles() -> None:
    text = "name: q\nplanes: 1\nt0: 1\nt1: 0\nhosts: 2\nqueues: {trimming: no, ecn_low: 10, base_rtt_ns: 1000000}\n"
    fabric = loader.load_text(text)
    assert fabric.queues == QueueProfile(trimming=False, ecn_low=10, base_rtt_ns=1_000_000)
    assert loader.load_text(loader.dump_text(fabric)) == fabric


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{trimmin: no}", "did you mean trimming"),
        ("{trimming: 1}", "trimming: must be yes or no, not '1'"),
        ("{ecn_low: yes}", "ecn_low: must be a whole number, not 'yes'"),
        ("7", "queues: must be a mapping"),
    ],
)
def test_invalid_settings_in_a_file_are_reported(value: str, message: str) -> None:
    with pytest.raises(FabricError, match=message):
        loader.load_text(f"name: q\nplanes: 1\nt0: 1\nt1: 0\nhosts: 2\nqueues: {value}\n")
