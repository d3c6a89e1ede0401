"""How far a build is: what is printed, and what it is taken from."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from scripts.build_progress import BuildProgress
from scripts.compile_transport import TEMPORARY, how_far

PARTS = [f"{TEMPORARY}/ccX.ltrans{number}.o" for number in range(3)]


class Terminal(io.StringIO):
    """One that nobody sees."""

    def isatty(self) -> bool:
        return True


def test_where_nobody_watches_there_is_a_line_for_each_step_and_quarter() -> None:
    out = io.StringIO()
    progress = BuildProgress("Building", out)
    progress.report("thinking")
    progress.report("thinking")
    for done in range(9):
        progress.report("files", done, 8)
    progress.close()
    lines = [f"Building: {done} of 8 files" for done in (0, 2, 4, 6, 8)]
    assert out.getvalue().splitlines() == ["Building: thinking", *lines]


def test_a_terminal_has_one_line_that_changes_and_goes() -> None:
    out, time = Terminal(), 0.0
    progress = BuildProgress("Building", out, clock=lambda: time)
    progress.report("files", 3, 8)
    progress.report("files", 3, 8)
    time = 67.0
    progress.report("files", 4, 8)
    progress.close()
    progress.close()
    assert out.getvalue() == ("\rBuilding: 3 of 8 files, 0:00\033[K\rBuilding: 4 of 8 files, 1:07\033[K\r\033[K")


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ((), ("checking types", 0, 0)),
        (("objects",), ("files", 0, 3)),
        (("objects", "build/temp/a.o", "build/temp/x/b.o"), ("files", 2, 3)),
        (("objects", "build/a.o", f"{TEMPORARY}/ccX.ltrans0.o"), ("files", 1, 3)),
        (("objects", "build/a.o", *PARTS, f"{TEMPORARY}/ccX.ltrans1.ltrans.o"), ("parts linked", 1, 3)),
        (("objects", "build/a.o", "build/b.o", "build/c.o"), ("linking", 0, 0)),
    ],
)
def test_files_that_are_made_say_how_far_it_is(
    tmp_path: Path, files: tuple[str, ...], says: tuple[str, int, int]
) -> None:
    (tmp_path / TEMPORARY).mkdir()
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("3")
    assert how_far(tmp_path) == says
