"""What the tables of `mrc top` say of a sample: rates, states, order."""

import pytest

from mrc_host.verbs_types import PathState, QpType
from mrc_lab.top.rows import VIEWS, in_order
from tests.mrc_lab.top.samples import SECOND, host, link, pair, path, sample

PLANES, LINKS, PATHS, PAIRS = VIEWS


def texts(view, now, before=None):
    return [tuple(cell.text.plain for cell in row.cells) for row in view.rows(now, before)]


def test_rates_are_of_the_time_between_two_samples():
    before = sample([link("h1@p0", upward=1_000_000, downward=0, time=2 * SECOND)])
    now = sample([link("h1@p0", upward=3_500_000, downward=125_000, time=4 * SECOND)])
    assert texts(LINKS, now, before) == [("h1@p0", "up", "10 Mb/s", "500 kb/s", "10 %", "")]


@pytest.mark.parametrize("before", [None, sample(), sample([link("h1@p0", upward=10**9)])])
def test_without_a_sample_before_or_after_a_restart_the_rate_is_zero(before):
    now = sample([link("h1@p0", upward=5_000_000, time=SECOND)])
    assert texts(LINKS, now, before)[0][2:4] == ("0", "0")


def test_states_have_their_colours():
    now = sample(
        [link("a", up=False, faults=("f1",)), link("b")],
        h1=host(pair(7, [path(1, PathState.ASSUMED_BAD), path(2, PathState.SKIP), path(3)])),
    )
    down, up = ([str(span.style) for span in row.cells[1].text.spans] for row in LINKS.rows(now, None))
    assert (down, up) == (["bold red"], [])
    states = [row.cells[4].text for row in PATHS.rows(now, None)]
    assert [[str(span.style) for span in text.spans] for text in states] == [["bold red"], ["yellow"], []]


def test_a_plane_adds_up_its_links_paths_and_what_its_hosts_send():
    links = [
        link("h1@p0", upward=2_500_000, time=SECOND),
        link("h2@p0", upward=2_500_000, time=SECOND, faults=("f1",)),
        link("h1@p1", plane=1, up=False, time=SECOND, faults=("f1", "f2")),
    ]
    before = sample([link("h1@p0"), link("h2@p0"), link("h1@p1", plane=1)])
    paths = [path(1, lost=3), path(2, PathState.ASSUMED_BAD, lost=4), path(1024, plane=1, lost=5)]
    now = sample(links, h1=host(pair(7, paths)))
    assert texts(PLANES, now, before) == [
        ("0", "2/2", "1/2", "1", "40 Mb/s", "7", "1"),
        ("1", "0/1", "1/1", "0", "0", "5", "2"),
    ]


def test_queue_pairs_and_paths_count_packets_per_second():
    before = sample(h1=host(pair(7, [path(1, sent=100)], sent=1000, lost=5), time=SECOND))
    now = sample(h1=host(pair(7, [path(1, sent=150, lost=2)], sent=1500, lost=10), time=2 * SECOND))
    assert texts(PAIRS, now, before) == [
        ("h1", "0x000007", "h3:0x000029", "mrc", "rts", "500", "5", "1500", "0", "10"),
    ]
    assert texts(PATHS, now, before) == [
        ("h1", "h3:0x000029", "0x1", "0", "good", "yes", "50", "2", "120 us"),
    ]


def test_queue_pairs_of_rc_and_unconnected_ones_have_rows_too():
    now = sample(h1=host(pair(7, remote="", kind=QpType.RC), pair(8, remote="evil name:x")))
    assert [row[2] for row in texts(PAIRS, now)] == ["-", "-"]


def test_the_worst_paths_come_first_and_equal_rows_keep_their_order():
    states = [PathState.GOOD, PathState.SKIP, PathState.ASSUMED_BAD, PathState.GOOD, PathState.DENIED]
    now = sample(h1=host(pair(7, [path(ev, state) for ev, state in enumerate(states)])))
    rows = list(PATHS.rows(now, None))
    ordered = in_order(rows, PATHS.sorted_by, PATHS.descending)
    assert [row.cells[4].text.plain for row in ordered] == ["assumed_bad", "denied", "skip", "good", "good"]
    assert in_order(rows[::-1], PATHS.sorted_by, PATHS.descending) == ordered


def test_every_row_of_every_table_has_all_columns_and_a_key_of_its_own():
    now = sample([link("a"), link("b", plane=1)], h1=host(pair(7, [path(1), path(2)]), pair(8)), h2=host(pair(7)))
    for view in VIEWS:
        rows = list(view.rows(now, now))
        assert len({row.key for row in rows}) == len(rows) > 0
        assert {len(row.cells) for row in rows} == {len(view.columns)}
