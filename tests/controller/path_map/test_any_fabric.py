"""The map of fabrics with three tiers, uneven racks and missing links, from counts without chance."""

from __future__ import annotations

import random

import numpy as np
import pytest

from controller.path_map.denylist_policy import paths_to_deny
from controller.path_map.inference import PlaneInference
from controller.path_map.likelihood import Likelihood
from controller.path_map.mapper import PathMap
from controller.path_map.plane_model import Element, PlaneModel, plane_models
from controller.path_map.render import describe, draw
from controller.path_map.values import Direction, ElementKind, LinkHealth, MapState, SuspectedFault
from tests.topologies.random_fabrics import random_fabric, three_tiers
from topologies.clos import multi_plane_clos
from topologies.link_rules import LinkRule
from topologies.probe_plan import probe_plan

TIERS = three_tiers("tiers", planes=1)
MODEL = plane_models(probe_plan(TIERS))[0]


def explain(model: PlaneModel, losses: dict[Element, float]) -> dict[Element, float]:
    survival = np.ones(len(model.routes))
    for suspect, share in losses.items():
        survival *= (1 - share) ** model.column(model.elements.index(suspect))
    sent = np.full(len(model.routes), 200.0)
    found = PlaneInference(model).explain(Likelihood(model, sent, np.round(sent * (1 - survival)), 3e-4))
    return {model.elements[finding.suspect]: finding.loss for finding in found}


@pytest.mark.parametrize(
    "suspect",
    [s for s in MODEL.elements if s.part is not ElementKind.PATH],
    ids=lambda s: f"{s.name} {s.direction.value}",
)
def test_every_dead_link_and_switch_of_three_tiers_is_found(suspect: Element) -> None:
    assert list(explain(MODEL, {suspect: 1.0})) == [suspect]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_the_loss_rate_of_a_t1_t2_link_is_measured(share: float) -> None:
    link = Element(ElementKind.T1_T2, "t1-2:t2-1@p0", 0)
    found = explain(MODEL, {link: share})
    assert list(found) == [link]
    assert found[link] == pytest.approx(share, rel=0.2)


@pytest.mark.parametrize("seed", range(20))
def test_any_fabric_can_be_mapped(seed: int) -> None:
    print(f"seed {seed}")
    fabric = random_fabric(random.Random(seed))
    known = PathMap(probe_plan(fabric))
    assert known.update(10**9) == ()
    assert set(known.link_counts(0)) == {link.name for link in fabric.links}
    assert draw(fabric, MapState(True, 10.0, 1.0, 1.0)).count("plane ") == fabric.planes


def test_an_element_no_probe_reaches_is_not_suspected() -> None:
    rules = [LinkRule("h1@p1", missing=True)]
    fabric = multi_plane_clos(planes=2, t0=2, t1=2, hosts=2, links=rules)
    assert {s.name for s in plane_models(probe_plan(fabric))[1].elements if s.part is ElementKind.T0_T1} == {
        "t0-1:t1-0@p1",
        "t0-1:t1-1@p1",
    }


def test_the_rendered_map_has_a_table_for_each_pod_and_one_for_the_t2s() -> None:
    fault = SuspectedFault(ElementKind.T1_T2, "t1-1:t2-3@p0", 0, Direction.UP, 1.0, 0.99, 0)
    health = tuple(LinkHealth(link.name, 10, 0) for link in TIERS.links)
    text = draw(TIERS, MapState(True, 10.0, 1.0, 1.0, (fault,), health))
    rows = [line.split() for line in text.splitlines()]
    assert ["plane", "0", "t1-0", "t1-1", "NICs"] in rows
    assert ["pod", "1", "t1-2", "t1-3", "NICs"] in rows
    assert ["t2-0", "t2-1", "t2-2", "t2-3"] in rows
    assert ["t1-1", "ok", "100%^"] in rows
    assert "t1-1:t2-3@p0 (T1-T2 link): 100 % loss towards the T2" in describe(fault, 0.0)


def test_a_faulty_t1_t2_link_denies_paths_between_pods_only() -> None:
    fault = SuspectedFault(ElementKind.T1_T2, "t1-1:t2-3@p0", 0, Direction.BOTH, 1.0, 0.99, 0)
    denied = paths_to_deny(TIERS, [fault])
    pods = {nic.name: TIERS.pod_of(nic.t0) for nic in TIERS.nics}
    assert {(pods[a], pods[b]) for a, b, _ in denied} == {(0, 1), (1, 0)}
    assert len(denied) == 2 * 4 * 4  # one of four paths of each pair of hosts across the pods
