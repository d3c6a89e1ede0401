"""Listings: the same rows as a table, as JSON and on the documentation page."""

from __future__ import annotations

import io
import json
import re
from datetime import datetime, timedelta

import pandas
import pytest
from rich.console import Console

from controller.path_map.values import Direction, ElementKind, LinkHealth, MapState, SuspectedFault
from controller.values import LinkEndInfo, LinkStatus
from mrc_lab.commands.link_listing import LINKS, links
from mrc_lab.commands.listing import Column, Listing, clock_text, iso_time
from mrc_lab.commands.map_listing import MAP, elements
from scripts.listings_page import LISTINGS, PAGE, page
from topologies.clos import multi_plane_clos
from topologies.emulation.link_counters import Traffic

THINGS = Listing(
    "things",
    "things",
    (
        Column("thing", "its name", "thing"),
        Column("size_bytes", "its size; null if unknown", "size"),
        Column("parts", "what it is made of"),
    ),
)
ROWS = [
    {"thing": "[bold]a", "size_bytes": 1 << 40, "parts": ["x", "y"], "more": 1},
    {"thing": "b", "size_bytes": None, "parts": [], "more": 2},
]
FABRIC = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4)


def printed(listing: Listing, **options: tuple[str, ...]) -> list[str]:
    """The lines of a table."""
    console = Console(file=io.StringIO(), width=200)
    console.print(listing.table(ROWS, **options))
    assert isinstance(console.file, io.StringIO)
    return [line.strip() for line in console.file.getvalue().splitlines()]


def test_a_table_has_the_columns_with_titles_and_text_as_it_is() -> None:
    head, _, *rows = printed(THINGS)
    assert head.split() == ["thing", "size"]
    assert [row.split() for row in rows] == [["[bold]a", "1099511627776"], ["b", "-"]]
    assert printed(THINGS, without=("size_bytes",))[0].split() == ["thing"]


def test_json_has_every_field_and_only_those() -> None:
    text = THINGS.json(ROWS)
    assert [list(row) for row in json.loads(text)] == [["thing", "size_bytes", "parts"]] * 2
    assert len(text.splitlines()) == 2 + len(ROWS), "a line each row"
    assert json.loads(THINGS.json([])) == []


def test_pandas_reads_json_as_it_is() -> None:
    frame = pandas.read_json(io.StringIO(THINGS.json(ROWS)))
    assert list(frame.columns) == ["thing", "size_bytes", "parts"]
    assert frame.size_bytes[0] == 1 << 40
    assert pandas.isna(frame.size_bytes[1])
    assert pandas.read_json(io.StringIO(THINGS.json([]))).empty


def test_times_are_local_and_unambiguous() -> None:
    then = datetime(2026, 11, 24, 12, 4, 51, 250_000)
    epoch_ns = int(then.timestamp() * 1e9)
    parsed = datetime.fromisoformat(iso_time(epoch_ns))
    assert parsed.utcoffset() is not None
    assert abs(parsed.replace(tzinfo=None) - then) < timedelta(microseconds=2)
    assert clock_text(epoch_ns) == "12:04:51"
    assert clock_text(epoch_ns, microseconds=True).startswith("12:04:51.25")


def test_links_have_states_rates_and_traffic() -> None:
    end = LinkEndInfo("h1", 0, "h1-eth0")
    link = FABRIC.link("h1@p0")
    status = LinkStatus(link.name, link.kind, 0, end, end, 10**8, False, Traffic(1, 100), Traffic(2, 200), ("f1",), 0)
    (row,) = json.loads(LINKS.json(links([status])))
    assert (row["up"], row["rate_bps"], row["upward_bytes"], row["downward_packets"]) == (False, 10**8, 100, 2)
    assert (row["kind"], row["plane"], row["faults"]) == ("nic-t0", 0, ["f1"])


def test_a_map_lists_links_with_their_probes_and_other_suspected_elements() -> None:
    suspected = (
        SuspectedFault(ElementKind.T0_T1, "t0-0:t1-1@p0", 0, Direction.UP, 0.4, 0.99, 10**9, ("t1-1@p0",)),
        SuspectedFault(ElementKind.SWITCH, "t1-0@p1", 1, None, 0.1, 0.8, 0),
    )
    health = (LinkHealth("t0-0:t1-1@p0", 100, 40), LinkHealth("h1@p0", 50, 0))
    state = MapState(True, 10.0, 0.1, 5.0, suspected, health)
    rows = {row["element"]: row for row in json.loads(MAP.json(elements(FABRIC, state)))}
    assert (rows["h1@p0"]["suspected"], rows["h1@p0"]["loss_fraction"], rows["h1@p0"]["probes_sent"]) == (
        False,
        None,
        50,
    )
    link = rows["t0-0:t1-1@p0"]
    assert (link["kind"], link["suspected"], link["loss_fraction"], link["direction"]) == ("t0-t1", True, 0.4, "up")
    assert datetime.fromisoformat(link["since_time"]) <= datetime.now().astimezone()
    switch = rows["t1-0@p1"]
    assert (switch["kind"], switch["plane"], switch["probes_sent"], switch["direction"]) == ("switch", 1, None, None)


def test_the_page_of_listings_matches_their_declarations() -> None:
    assert PAGE.read_text() == page(), "run python -m scripts.listings_page"


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda listing: listing.usage)
def test_fields_have_units_and_meanings(listing: Listing) -> None:
    names = [column.field for column in listing.columns]
    assert len(set(names)) == len(names)
    for column in listing.columns:
        assert re.fullmatch(r"[a-z][a-z_]*", column.field)
        assert column.meaning
        if re.search(r"sent|received|lost|marked|trimmed|dropped|waiting|peak|limit", column.field):
            assert re.search(r"_(packets|bytes)$|^probes_", column.field), column.field
