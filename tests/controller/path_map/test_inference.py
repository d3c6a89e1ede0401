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


def test_no_loss_means_no_fault() -> None:
    assert explain({}) == {}


@pytest.mark.parametrize("suspect", PLANE.elements, ids=lambda s: f"{s.name} {s.direction.value}")
def test_every_dead_element_alone_is_found(suspect: Element) -> None:
    assert list(explain({suspect: 1.0}, probes=20)) == [suspect]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("suspect", [NIC, UPLINK, one(ElementKind.T0_T1, "t0-0:t1-0@p1", Direction.UP)], ids=str)
def test_the_loss_rate_of_a_link_is_measured(suspect: Element, share: float) -> None:
    found = explain({suspect: share})
    assert list(found) == [suspect]
    assert found[suspect] == pytest.approx(share, rel=0.1)


def test_several_faults_are_distinguished() -> None:
    losses = {NIC: 0.2, UPLINK: 1.0, one(ElementKind.T0_T1, "t0-0:t1-3@p1", Direction.DOWN): 0.5}
    assert set(explain(losses)) == set(losses)


def test_a_switch_is_suspected_only_when_all_its_links_are_dead() -> None:
    links = [one(ElementKind.T0_T1, f"t0-{t}:t1-2@p1") for t in range(3)]
    assert set(explain(dict.fromkeys(links, 1.0), probes=20)) == {one(ElementKind.SWITCH, "t1-2@p1")}
    assert set(explain(dict.fromkeys(links[:2], 1.0), probes=20)) == set(links[:2])


@pytest.mark.parametrize("probes", [10, 20, 100])
def test_a_healthy_switch_is_not_suspected_when_several_neighbours_are_faulty(probes: int) -> None:
    faults = {
        one(ElementKind.NIC_T0, "h1@p1"): 1.0, one(ElementKind.NIC_T0, "h2@p1"): 0.5,
        one(ElementKind.SWITCH, "t1-1@p1"): 1.0,
        one(ElementKind.T0_T1, "t0-0:t1-0@p1"): 0.5,
    }  # fmt: skip
    found = set(explain(faults, probes))
    assert found <= set(faults), "no healthy element"
    assert one(ElementKind.SWITCH, "t1-1@p1") in found


def test_a_few_random_probe_losses_are_not_a_fault() -> None:
    sent = np.full(len(PLANE.routes), 100.0)
    lost = np.zeros(len(PLANE.routes))
    lost[[3, 17]] = 1.0
    assert INFERENCE.explain(Likelihood(PLANE, sent, lost, NOISE)) == []


def test_a_known_background_loss_is_not_a_fault() -> None:
    sent = np.full(len(PLANE.routes), 1000.0)
    lost = np.full(len(PLANE.routes), 5.0)
    assert INFERENCE.explain(Likelihood(PLANE, sent, lost, 0.005)) == []


def test_a_known_fault_remains_suspected() -> None:
    sent = np.full(len(PLANE.routes), 100.0)
    number = PLANE.elements.index(UPLINK)
    found = INFERENCE.explain(Likelihood(PLANE, sent, np.zeros(len(sent)), NOISE), known=[number])
    assert [finding.suspect for finding in found] == [number]
    assert found[0].loss == pytest.approx(0, abs=1e-3)


def test_indistinguishable_elements_share_the_probability() -> None:
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
