"""Faulty elements out of counts, without chance: every route loses exactly the share it should."""

from __future__ import annotations

import numpy as np
import pytest

from controller.path_map.inference import PlaneInference
from controller.path_map.likelihood import Likelihood
from controller.path_map.plane_model import Element, PlaneModel, plane_models
from controller.path_map.values import Direction, ElementKind
from topologies.clos import multi_plane_clos
from topologies.probe_plan import probe_plan

PLANE: PlaneModel = plane_models(probe_plan(multi_plane_clos(planes=2, t0=3, t1=4, hosts=6)))[1]
INFERENCE = PlaneInference(PLANE)
NOISE = 3e-4


def explain(losses: dict[Element, float], probes: int = 400) -> dict[Element, float]:
    """What is found, and its loss, when these elements lose these shares."""
    survival = np.ones(len(PLANE.routes))
    for suspect, share in losses.items():
        survival *= (1 - share) ** PLANE.column(PLANE.elements.index(suspect))
    sent = np.full(len(PLANE.routes), float(probes))
    found = INFERENCE.explain(Likelihood(PLANE, sent, np.round(sent * (1 - survival)), NOISE))
    return {PLANE.elements[finding.suspect]: finding.loss for finding in found}


def one(part: ElementKind, name: str, way: Direction = Direction.BOTH) -> Element:
    return Element(part, name, 1, way)


NIC, UPLINK = one(ElementKind.NIC_T0, "h2@p1"), one(ElementKind.T0_T1, "t0-1:t1-2@p1")


def test_no_loss_no_fault() -> None:
    assert explain({}) == {}


@pytest.mark.parametrize("suspect", PLANE.elements, ids=lambda s: f"{s.name} {s.direction.value}")
def test_each_suspect_alone_is_found_when_it_loses_everything(suspect: Element) -> None:
    assert list(explain({suspect: 1.0}, probes=20)) == [suspect]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("suspect", [NIC, UPLINK, one(ElementKind.T0_T1, "t0-0:t1-0@p1", Direction.UP)], ids=str)
def test_the_share_that_a_link_loses_is_measured(suspect: Element, share: float) -> None:
    found = explain({suspect: share})
    assert list(found) == [suspect]
    assert found[suspect] == pytest.approx(share, rel=0.1)


def test_several_faults_are_distinguished() -> None:
    losses = {NIC: 0.2, UPLINK: 1.0, one(ElementKind.T0_T1, "t0-0:t1-3@p1", Direction.DOWN): 0.5}
    assert set(explain(losses)) == set(losses)


def test_a_switch_is_found_when_all_its_links_are_dead_and_not_when_one_works() -> None:
    links = [one(ElementKind.T0_T1, f"t0-{t}:t1-2@p1") for t in range(3)]
    assert set(explain(dict.fromkeys(links, 1.0), probes=20)) == {one(ElementKind.SWITCH, "t1-2@p1")}
    assert set(explain(dict.fromkeys(links[:2], 1.0), probes=20)) == set(links[:2])


@pytest.mark.parametrize("probes", [10, 20, 100])
def test_a_healthy_switch_is_not_found_for_its_neighbours_together(probes: int) -> None:
    faults = {
        one(ElementKind.NIC_T0, "h1@p1"): 1.0, one(ElementKind.NIC_T0, "h2@p1"): 0.5,
        one(ElementKind.SWITCH, "t1-1@p1"): 1.0,
        one(ElementKind.T0_T1, "t0-0:t1-0@p1"): 0.5,
    }  # fmt: skip
    found = set(explain(faults, probes))
    assert found <= set(faults), "nothing healthy"
    assert one(ElementKind.SWITCH, "t1-1@p1") in found


def test_losses_of_a_few_probes_by_chance_are_no_fault() -> None:
    sent = np.full(len(PLANE.routes), 100.0)
    lost = np.zeros(len(PLANE.routes))
    lost[[3, 17]] = 1.0
    assert INFERENCE.explain(Likelihood(PLANE, sent, lost, NOISE)) == []


def test_general_loss_is_noise_when_it_is_known_as_such() -> None:
    sent = np.full(len(PLANE.routes), 1000.0)
    lost = np.full(len(PLANE.routes), 5.0)
    assert INFERENCE.explain(Likelihood(PLANE, sent, lost, 0.005)) == []


def test_a_known_fault_stays_in_the_explanation() -> None:
    sent = np.full(len(PLANE.routes), 100.0)
    number = PLANE.elements.index(UPLINK)
    found = INFERENCE.explain(Likelihood(PLANE, sent, np.zeros(len(sent)), NOISE), known=[number])
    assert [finding.suspect for finding in found] == [number]
    assert found[0].loss == pytest.approx(0, abs=1e-3)


def test_rivals_share_the_probability_where_probes_cannot_distinguish_them() -> None:
    plane = plane_models(probe_plan(multi_plane_clos(planes=1, t0=1, t1=1, hosts=1)))[0]
    inference = PlaneInference(plane)
    sent = np.full(len(plane.routes), 50.0)
    lost = np.array([50.0 if len(route.crossings) > 2 else 0.0 for route in plane.routes])
    counts = Likelihood(plane, sent, lost, NOISE)
    assert len(inference.explain(counts)) == 1
    chances = inference.rivals({}, counts)
    names: dict[str, float] = {}
    for suspect, chance in zip(plane.elements, chances, strict=True):
        names[suspect.name] = names.get(suspect.name, 0.0) + float(chance)
    assert sum(names.values()) == pytest.approx(1)
    assert names["t0-0:t1-0@p0"] > 0.1
    assert names["t1-0@p0"] > 0.1
    assert names["h1@p0"] < 1e-6
