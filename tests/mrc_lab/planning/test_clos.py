"""The published comparison of designs (docs/protocol.md section 6), and what must hold for any size."""

from __future__ import annotations

import pytest

from mrc_lab.planning.clos import Design, Impossible, Request, design

G = 10**9


def planned(nics: int, tiers: int, planes: int, radix: int = 512, speed: int = 800 * G) -> Design:
    found = design(Request(nics, speed, radix, 100 * G, speed), tiers, planes)
    assert isinstance(found, Design), found
    return found


def losses(found: Design) -> dict[str, tuple[float, int]]:
    return {loss.part: (loss.share, loss.nics) for loss in found.losses}


def test_two_tiers_with_eight_planes_match_the_published_sizes():
    found = planned(131_072, 2, 8)
    assert (found.t0, found.t1, found.t2) == (8 * 512, 8 * 256, 0)
    assert found.switches == 6144
    assert found.most_nics == 131_072
    assert found.optics == 4 * 131_072
    assert found.longest_path == 3
    assert found.neighbours == 256
    assert found.paths == 2048
    assert losses(found)["T0-T1 link"] == (1 / 256, 256)
    assert losses(found)["NIC port"] == (1 / 8, 1)
    assert losses(found)["T0"] == (1 / 8, 256)


def test_three_tiers_with_one_plane_match_the_published_sizes():
    found = planned(65_536, 3, 1)
    assert (found.t0, found.t1, found.t2) == (64 * 32, 64 * 32, 1024)
    assert found.switches == 5120
    assert found.most_nics == 65_536
    assert found.optics == 6 * 65_536
    assert found.longest_path == 5
    assert found.neighbours == 32
    assert losses(found)["T0-T1 link"] == (1 / 32, 32)
    assert losses(found)["NIC port"] == (1, 1)


def test_multi_plane_needs_two_thirds_of_the_optics_and_three_fifths_of_the_switches():
    flat, tall = planned(65_536, 2, 8), planned(65_536, 3, 1)
    assert flat.optics * 3 == tall.optics * 2
    assert flat.switches * 5 == tall.switches * 3


def test_the_ratios_hold_per_nic_in_full_fabrics():
    flat, tall = planned(131_072, 2, 8), planned(65_536, 3, 1)
    assert flat.switches / 131_072 == 0.6 * tall.switches / 65_536
    assert flat.optics / 131_072 == pytest.approx(2 / 3 * tall.optics / 65_536)


def test_four_planes_connect_a_quarter_of_the_nics_of_eight():
    assert planned(32_768, 2, 4).most_nics == 32_768
    assert isinstance(design(Request(32_769, 800 * G, 512, 100 * G, 800 * G), 2, 4), Impossible)


@pytest.mark.parametrize(
    ("nics", "tiers", "planes", "reason"),
    [
        (65_537, 3, 1, "65,536 NICs at most"),
        (513, 1, 8, "512 NICs at most"),
        (100, 2, 8, "a tier less does the same"),
        (512, 3, 1, "a tier less does the same"),
        (64, 1, 16, "lanes wide"),
        (64, 1, 3, "lanes wide"),
    ],
)
def test_impossible_fabrics_are_refused_with_a_reason(nics: int, tiers: int, planes: int, reason: str):
    found = design(Request(nics, 800 * G, 512, 100 * G, 800 * G), tiers, planes)
    assert isinstance(found, Impossible)
    assert reason in found.reason


def test_link_rates_are_limited_by_the_transceiver():
    found = design(Request(64, 800 * G, 512, 100 * G, 400 * G), 1, 1)
    assert isinstance(found, Impossible)
    assert "transceiver" in found.reason


@pytest.mark.parametrize("tiers", [1, 2, 3])
@pytest.mark.parametrize("planes", [1, 2, 4, 8])
@pytest.mark.parametrize("nics", [2, 63, 64, 65, 500, 1000, 2047, 5000, 40_000, 65_535, 100_001, 900_000])
def test_no_switch_has_more_links_than_ports_and_every_nic_has_full_bisection(nics: int, tiers: int, planes: int):
    found = design(Request(nics, 800 * G, 512, 100 * G, 800 * G), tiers, planes)
    if isinstance(found, Impossible):
        return
    t0, t1, t2 = found.t0 // planes, found.t1 // planes, found.t2 // planes
    between = found.links // planes - nics  # of all stages, in one plane
    stage = between // (tiers - 1) if tiers > 1 else 0
    assert t0 * found.neighbours >= nics, "every NIC is below a T0"
    assert stage >= nics or tiers == 1, "as much goes up as comes from below"
    assert nics + stage <= t0 * found.radix
    assert stage + (stage if tiers == 3 else 0) <= t1 * found.radix
    assert (stage if tiers == 3 else 0) <= t2 * found.radix
    assert all(0 < loss.share <= 1 and 1 <= loss.nics <= nics for loss in found.losses)


def test_a_plane_without_switches_loses_only_its_share():
    assert losses(planned(512, 2, 8))["T1"] == (1 / 8, 512)  # its only T1
