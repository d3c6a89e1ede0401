"""The dashboard for Grafana: a layout without overlaps, variables that are defined, queries of families that exist.

`tests/integration/test_telemetry.py` runs the queries in Prometheus.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from itertools import combinations
from typing import Any

import pytest

from tests.mrc_lab.telemetry.values import reading, scraped

BOARD = json.loads(files("mrc_lab.telemetry").joinpath("grafana.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
VARIABLES = {variable["name"] for variable in BOARD["templating"]["list"]}
COLUMNS = 24
_OF_GRAFANA = {"__rate_interval"}
_FAMILY = re.compile(r"\b(?:mrc|node|rdma)_\w+")
_VARIABLE = re.compile(r"\$\{?(\w+)")


def cells(panel: dict[str, Any]) -> tuple[range, range]:
    """The columns and rows that a panel covers."""
    at = panel["gridPos"]
    return range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])


def test_panels_are_on_the_grid_and_do_not_overlap():
    assert len(PANELS) >= 20
    for panel in BOARD["panels"]:
        assert 0 <= cells(panel)[0].start < cells(panel)[0].stop <= COLUMNS, panel["title"]
    for one, other in combinations(BOARD["panels"], 2):
        shared = [set(a) & set(b) for a, b in zip(cells(one), cells(other), strict=True)]
        assert not all(shared), f"{one['title']} and {other['title']}"


def test_ids_and_titles_are_unique():
    for key in ("id", "title"):
        assert len({panel[key] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_legends_have_all_that_grafanas_schema_requires_of_them():
    """Grafana adds what is missing only to dashboards of older schemas."""
    plotted = [panel["options"]["legend"] for panel in PANELS if panel["type"] == "timeseries"]
    assert len(plotted) >= 20
    assert all(legend.keys() == {"displayMode", "placement", "showLegend", "calcs"} for legend in plotted)
    assert all(legend["showLegend"] for legend in plotted)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_has_a_meaning_a_unit_and_queries_of_what_there_is(panel: dict[str, Any]):
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
    exported = {name for name, _ in scraped(reading())}
    for target in panel["targets"]:
        assert target["datasource"] == panel["datasource"]
        assert set(_VARIABLE.findall(json.dumps(target))) <= VARIABLES | _OF_GRAFANA
        assert _FAMILY.findall(target["expr"])
        assert set(_FAMILY.findall(target["expr"])) <= exported
        assert "instance" in target["expr"], "with two exporters, one may be selected"


def test_rates_are_of_counters_and_only_counters_have_rates():
    for panel in PANELS:
        for target in panel["targets"]:
            rated = set(re.findall(r"(?:rate|increase)\((\w+)", target["expr"]))
            named = set(_FAMILY.findall(target["expr"]))
            assert {name for name in named if name.endswith(("_total", "_bucket"))} == rated, target["expr"]
