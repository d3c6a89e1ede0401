from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from mrc_lab.reports import plots
from mrc_lab.reports.topology import render
from tests.mrc_lab.reports.recordings import experiment, metrics, recording
from topologies.clos import multi_plane_clos

EXPECT = "[{metric: throughput, relation: about, value: 30G, published: {value: 30G, certainty: D}}]"


def drawings():
    made, whole = recording(), experiment(EXPECT)
    case = whole.cases[0]
    yield plots.throughput(case, made, whole.expect)
    yield plots.activity(made)
    yield plots.path_states(made)
    yield plots.losses(made)
    yield plots.completions({"only": made}, {"only": case})
    yield plots.flow_bars({"only": made}, {"only": case})
    yield plots.compare_throughput(metrics({"a": made, "b": made}))
    yield plots.totals({"A": ([0.0, 1.0, 2.0], [1e9, 2e9]), "B": ([0.0, 1.0], [1e6])})


def test_plots_are_svg_and_repeatable():
    first, second = list(drawings()), list(drawings())
    assert first == second
    for svg in first:
        assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_a_run_without_events_is_plotted():
    made = recording([(0, 0)] * 3, messages=(), paths=(), faults=(), trimmed={}, drops={})
    case = experiment().cases[0]
    for svg in (
        plots.throughput(case, made, ()),
        plots.activity(made),
        plots.path_states(made),
        plots.completions({"only": made}, {"only": case}),
    ):
        ElementTree.fromstring(svg)


def test_items_omitted_from_a_plot_are_named():
    lines = tuple(f"t0-0:t1-{n}@p0>" for n in range(200))
    made = recording(drops={f"reason {n}": n + 1 for n in range(50)})
    links = np.zeros((len(made.times), 200, 3), np.int64)
    links[:, :, 1] = 1000 * np.arange(len(made.times))[:, None] * np.arange(100, 300)[None, :]
    svg = plots.activity(replace(made, channels=lines, link_samples=links))
    assert "the 160 busiest of 200 links" in svg
    svg = plots.losses(made)
    assert "reason 49" in svg
    assert "the largest; 28 more have 370 frames together" in svg


@pytest.mark.parametrize(("planes", "t0", "t1", "hosts"), [(1, 1, 0, 1), (2, 2, 4, 4), (8, 2, 16, 64)])
def test_the_fabric_drawing_has_every_part_and_marks_faults(planes, t0, t1, hosts):
    fabric = multi_plane_clos(planes=planes, t0=t0, t1=t1, hosts=hosts)
    fault = recording().faults[0]
    root = ElementTree.fromstring(render(fabric, [fault]))
    space = "{http://www.w3.org/2000/svg}"
    titles = [title.text for title in root.iter(f"{space}title")]
    assert sorted(set(titles)) == sorted(
        {link.name for link in fabric.links} | {switch.name for switch in fabric.switches} | set(fabric.nic_names)
    )
    red = [line for line in root.iter(f"{space}line") if line.get("stroke") == "#c62828"]
    assert [line.find(f"{space}title").text for line in red] == ["h1@p0"]


@pytest.mark.parametrize(("planes", "t0", "t1", "hosts"), [(1, 1, 0, 1), (2, 2, 4, 4), (4, 8, 16, 32), (8, 2, 16, 64)])
def test_a_fabric_drawn_with_names_names_every_row(planes, t0, t1, hosts):
    root = ElementTree.fromstring(render(multi_plane_clos(planes=planes, t0=t0, t1=t1, hosts=hosts), (), names=True))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    for first, last in (("t0-0", f"t0-{t0 - 1}"), ("t1-0", f"t1-{t1 - 1}"), ("h1", f"h{hosts}")):
        if first != "t1-0" or t1:
            found = texts.count(f"{first} … {last}") + texts.count(first)
            assert found == planes, first
