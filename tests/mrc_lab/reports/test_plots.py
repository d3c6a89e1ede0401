from dataclasses import replace
from xml.etree import ElementTree

import numpy as np

from mrc_lab.reports import plots
from tests.mrc_lab.reports.recordings import experiment, metrics, recording

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
