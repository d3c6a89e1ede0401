import pytest

from mrc_lab.demo.faults import busiest_link, crosses
from mrc_lab.errors import ExperimentError
from topologies.addressing import entropy_value
from topologies.clos import multi_plane_clos
from topologies.fabric import LinkKind

FABRIC = multi_plane_clos(planes=2, t0=2, t1=4, hosts=4)  # h1, h2 below t0-0; h3, h4 below t0-1


def test_the_busiest_link_has_the_most_new_bytes_of_its_kind():
    before = {link.name: 1000 * number for number, link in enumerate(FABRIC.links)}
    after = dict(before)
    after["t0-1:t1-2@p1"] += 500
    after["t0-0:t1-2@p1"] += 400
    after["h3@p0"] += 9000
    assert busiest_link(FABRIC, LinkKind.T0_T1, before, after) == "t0-1:t1-2@p1"
    assert busiest_link(FABRIC, LinkKind.NIC_T0, before, after) == "h3@p0"


def test_finding_the_busiest_link_without_traffic_is_an_error():
    with pytest.raises(ExperimentError, match="no t0-t1 link carried traffic"):
        busiest_link(FABRIC, LinkKind.T0_T1, {}, {})


@pytest.mark.parametrize(
    ("link", "host", "peer", "plane", "uplink", "expected"),
    [
        ("t0-0:t1-2@p1", "h1", "h3", 1, 2, True),
        ("t0-0:t1-2@p1", "h4", "h2", 1, 2, True),
        ("t0-0:t1-2@p1", "h1", "h3", 0, 2, False),
        ("t0-0:t1-2@p1", "h1", "h3", 1, 3, False),
        ("t0-0:t1-0@p1", "h1", "h2", 1, 0, False),  # both below the same T0: the path turns round there
        ("h3@p0", "h1", "h3", 0, 1, True),
        ("h3@p0", "h3", "h4", 0, 0, True),
        ("h3@p0", "h1", "h3", 1, 1, False),
        ("h3@p0", "h1", "h4", 0, 1, False),
    ],
)
def test_paths_crossing_a_link_are_found(link, host, peer, plane, uplink, expected):
    assert crosses(FABRIC, FABRIC.link(link), host, peer, entropy_value(plane, uplink)) is expected


def test_paths_do_not_cross_links_of_other_t0s():
    fabric = multi_plane_clos(planes=1, t0=3, t1=2, hosts=3)
    assert not crosses(fabric, fabric.link("t0-2:t1-1@p0"), "h1", "h2", entropy_value(0, 1))
    assert crosses(fabric, fabric.link("t0-2:t1-1@p0"), "h1", "h3", entropy_value(0, 1))
