"""`mrc top` as it is used, by Textual's pilot: no terminal, no fabric."""

import asyncio
import os
import pty
import subprocess
import sys
import threading

import pytest
from textual.widgets import DataTable, Static, TabbedContent

from mrc_host.verbs_types import PathState
from mrc_lab.cli.main import run
from mrc_lab.top import app as application
from mrc_lab.top.app import Top
from tests.mrc_lab.top.samples import SECOND, host, link, pair, path, sample
from tests.waiting import TIMEOUT_S

FIRST = sample(
    [link("h1@p0"), link("h2@p0"), link("h1@p1", plane=1)],
    h1=host(pair(7, [path(1), path(1025, plane=1)], sent=10)),
)
CUT = sample(
    [link("h1@p0", time=SECOND), link("h2@p0", up=False, faults=("f1",), time=SECOND),
     link("h1@p1", plane=1, upward=1_000_000, time=SECOND)],
    h1=host(pair(7, [path(1, PathState.ASSUMED_BAD, lost=3), path(1025, plane=1)], sent=510), time=SECOND),
)  # fmt: skip


class Fabric:
    """Gives the samples one after the other, then the last one again and again."""

    def __init__(self, *samples):
        self.samples = list(samples)
        self.reads = 0

    def __call__(self):
        self.reads += 1
        return self.samples.pop(0) if len(self.samples) > 1 else self.samples[0]


def used(steps, *samples, size=(80, 24)):
    """Run `steps(app, pilot, sample)` in the application; `sample()` takes one sample and draws it."""

    async def session():
        fabric = Fabric(*samples)
        top = Top("lab", fabric, 3600)
        async with top.run_test(size=size) as pilot:

            async def once():
                top.sample()
                await top.workers.wait_for_complete()
                await pilot.pause()

            await top.workers.wait_for_complete()
            await pilot.pause()
            await steps(top, pilot, once)
            return fabric

    return asyncio.run(session())


def table(top):
    number = next(n for n in range(4) if f"pane-{n}" == top.query_one(TabbedContent).active)
    return top.query_one(f"#table-{number}", DataTable)


def cells(top):
    found = table(top)
    return [[str(cell) for cell in found.get_row_at(line)] for line in range(found.row_count)]


def about(top):
    return str(top.query_one("#about", Static).render())


def test_each_number_shows_its_table():
    async def steps(top, pilot, sample):
        assert [row[0] for row in cells(top)] == ["0", "1"]
        assert "fabric lab: 3 links, 0 down, 1 hosts" in about(top)
        await pilot.press("2")
        await pilot.pause()
        assert {row[0] for row in cells(top)} == {"h1@p0", "h2@p0", "h1@p1"}
        await pilot.press("3")
        await pilot.pause()
        assert [row[2] for row in cells(top)] == ["0x1", "0x401"]
        await pilot.press("4")
        await pilot.pause()
        assert [row[1] for row in cells(top)] == ["0x000007"]

    used(steps, FIRST)


def test_a_link_that_goes_down_comes_first_with_its_fault():
    async def steps(top, pilot, sample):
        await pilot.press("2")
        await sample()
        assert cells(top)[0][:2] == ["h2@p0", "DOWN"]
        assert cells(top)[0][5] == "f1"
        assert "1 down" in about(top)
        rates = {row[0]: row[2] for row in cells(top)}
        assert rates == {"h1@p0": "0", "h2@p0": "0", "h1@p1": "8 Mb/s"}

    used(steps, FIRST, CUT)


def test_a_path_that_is_assumed_bad_is_drawn_in_place():
    async def steps(top, pilot, sample):
        await pilot.press("3")
        await pilot.pause()
        assert [row[4] for row in cells(top)] == ["good", "good"]
        await sample()
        assert [row[4] for row in cells(top)] == ["assumed_bad", "good"]

    used(steps, FIRST, CUT)


def test_s_sorts_by_the_next_column_r_reverses_and_a_heading_can_be_clicked():
    async def steps(top, pilot, sample):
        await pilot.press("2")
        await pilot.pause()
        await pilot.press("s", "s", "s", "s", "s")  # from the state on: up, down, used, faults, and the link again
        await pilot.pause()
        names = [row[0] for row in cells(top)]
        assert names == sorted(names, reverse=True)
        await pilot.press("r")
        await pilot.pause()
        assert [row[0] for row in cells(top)] == sorted(names)
        headings = [str(column.label) for column in table(top).columns.values()]
        assert headings[0] == "link^"
        await pilot.click(table(top), offset=(3, 0))
        await pilot.pause()
        assert [row[0] for row in cells(top)] == sorted(names, reverse=True)

    used(steps, FIRST)


def test_p_keeps_what_is_shown_until_it_is_pressed_again():
    async def steps(top, pilot, sample):
        await pilot.press("2", "p")
        await sample()
        assert "paused" in about(top)
        assert all(row[1] == "up" for row in cells(top))
        await pilot.press("p")
        await sample()
        assert cells(top)[0][1] == "DOWN"

    fabric = used(steps, FIRST, CUT)
    assert fabric.reads == 2


def test_the_cursor_stays_while_the_table_is_refreshed():
    async def steps(top, pilot, sample):
        await pilot.press("2")
        await pilot.pause()
        await pilot.press("down", "down")
        await sample()
        assert table(top).cursor_row == 2

    used(steps, FIRST, CUT)


def test_what_does_not_answer_is_named_and_the_rest_is_shown():
    silent = sample(
        [], "the controller does not answer", h1=host(pair(7)), **{f"h{n}": host(problem="gone") for n in range(2, 9)}
    )

    async def steps(top, pilot, sample):
        text = about(top)
        assert "the controller does not answer" in text
        assert "h2: gone" in text
        assert "5 more do not answer" in text
        await pilot.press("4")
        await pilot.pause()
        assert len(cells(top)) == 1

    used(steps, silent)


def test_text_from_the_fabric_is_never_markup():
    hostile = sample(
        [link("[red]x[/]")], "[bold]no[/bold]", h1=host(pair(7, remote="[link=x]:3"), problem="[/nothing]")
    )

    async def steps(top, pilot, sample):
        assert "[bold]no[/bold]" in about(top)
        assert "[/nothing]" in about(top)
        await pilot.press("2")
        await pilot.pause()
        assert cells(top)[0][0] == "[red]x[/]"
        await pilot.press("4")
        await pilot.pause()
        assert cells(top)[0][2].startswith("[link=x]")

    used(steps, hostile)


def test_of_a_huge_table_only_the_first_rows_are_drawn(monkeypatch):
    monkeypatch.setattr(application, "MAX_ROWS", 10)

    async def steps(top, pilot, sample):
        await pilot.press("2")
        await pilot.pause()
        assert len(cells(top)) == 10

    used(steps, sample([link(f"h{number}@p0") for number in range(50)]))


@pytest.mark.parametrize("width", [60, 80])
def test_it_fits_a_small_terminal(width):
    async def steps(top, pilot, sample):
        for key in "1234":
            await pilot.press(key)
            await pilot.pause()
            if width == 80:
                assert table(top).virtual_size.width <= width, "no column is out of sight"
            assert table(top).region.width <= width
            assert table(top).region.height > 5
            assert top.query_one("#about").region.y == 0
            assert top.screen.max_scroll_y == 0, "nothing is out of sight"

    used(steps, FIRST, size=(width, 20))


def test_a_fabric_that_answers_slowly_does_not_stop_the_keys_and_is_asked_once_at_a_time():
    go = threading.Event()
    reads = []

    def slow():
        reads.append(1)
        if len(reads) > 1:
            assert go.wait(60)
        return FIRST

    async def session():
        top = Top("lab", slow, 3600)
        async with top.run_test() as pilot:
            await top.workers.wait_for_complete()
            top.sample()
            top.sample()
            await pilot.press("2")
            await pilot.pause()
            assert {row[0] for row in cells(top)} == {"h1@p0", "h2@p0", "h1@p1"}
            go.set()
            await top.workers.wait_for_complete()

    try:
        asyncio.run(session())
    finally:
        go.set()
    assert len(reads) == 2


def test_q_leaves():
    async def session():
        top = Top("lab", Fabric(FIRST), 3600)
        async with top.run_test() as pilot:
            await pilot.press("q")
        return top.return_code

    assert asyncio.run(session()) == 0


def test_without_a_terminal_it_says_what_to_do(capsys):
    assert run(["top"]) == 3
    assert "needs a terminal" in capsys.readouterr().err


_ON_A_TERMINAL = """
import signal
from mrc_lab.top.app import Top
from tests.mrc_lab.top.test_app import FIRST
signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
Top("lab", lambda: FIRST, 3600).run()
"""


def test_it_ends_with_its_terminal():
    master, slave = pty.openpty()
    command = ["setsid", "--ctty", sys.executable, "-c", _ON_A_TERMINAL]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"}
    ) as process:
        os.close(slave)
        try:
            shown = b""
            while b"fabric lab" not in shown:
                shown += os.read(master, 4096)
            os.close(master)
            process.wait(TIMEOUT_S)
        finally:
            process.kill()
