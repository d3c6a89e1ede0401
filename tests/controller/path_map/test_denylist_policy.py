"""EVs that a map's suspected faults deny, and their release when the fault clears."""

from __future__ import annotations

from controller.path_map.denylist_policy import paths_to_deny
from controller.path_map.values import Direction, ElementKind, SuspectedFault
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric

FABRIC = multi_plane_clos()  # 2 planes, 2 T0s, 4 T1s, h1 and h2 below t0-0, h3 and h4 below t0-1


def denied(part: ElementKind, name: str, way: Direction | None = Direction.BOTH, fabric: Fabric = FABRIC) -> set[str]:
    fault = SuspectedFault(part, name, 0, way, 1.0, 1.0, 0)
    return {f"{host}>{peer} {ev:x}" for host, peer, ev in paths_to_deny(fabric, [fault])}


def test_without_faults_nothing_is_denied() -> None:
    assert paths_to_deny(FABRIC, []) == frozenset()


def test_a_t0_t1_link_fault_denies_one_path_of_every_pair_across_it() -> None:
    up = {f"{host}>{peer} 402" for host in ("h1", "h2") for peer in ("h3", "h4")}
    down = {f"{peer}>{host} 402" for host in ("h1", "h2") for peer in ("h3", "h4")}
    assert denied(ElementKind.T0_T1, "t0-0:t1-2@p1") == up | down
    assert denied(ElementKind.T0_T1, "t0-0:t1-2@p1", None) == up | down
    assert denied(ElementKind.T0_T1, "t0-0:t1-2@p1", Direction.UP) == up
    assert denied(ElementKind.T0_T1, "t0-0:t1-2@p1", Direction.DOWN) == down


def test_a_nic_link_fault_denies_all_its_paths_on_that_plane() -> None:
    found = denied(ElementKind.NIC_T0, "h2@p0", Direction.UP)
    assert found == {"h2>h1 0"} | {f"h2>{peer} {uplink:x}" for peer in ("h3", "h4") for uplink in range(4)}
    assert denied(ElementKind.NIC_T0, "h2@p0") > found


def test_a_switch_fault_denies_all_paths_through_it_and_a_path_fault_one() -> None:
    crossing = {f"{a}>{b} 1" for a, b in (("h1", "h3"), ("h1", "h4"), ("h2", "h3"), ("h2", "h4"))}
    crossing |= {f"{b}>{a} 1" for a, b in (("h1", "h3"), ("h1", "h4"), ("h2", "h3"), ("h2", "h4"))}
    assert denied(ElementKind.SWITCH, "t1-1@p0") == crossing
    assert denied(ElementKind.PATH, "h1->h3 peer 0x0402") == {"h1>h3 402"}
    assert denied(ElementKind.PATH, "h1->h1 t1 0x0402") == set()


def test_every_pair_keeps_at_least_one_path() -> None:
    single = multi_plane_clos(planes=1, t0=2, t1=2, hosts=2)
    assert denied(ElementKind.NIC_T0, "h1@p0", fabric=single) == set()
    assert denied(ElementKind.T0_T1, "t0-0:t1-0@p0", fabric=single) == {"h1>h2 0", "h2>h1 0"}
