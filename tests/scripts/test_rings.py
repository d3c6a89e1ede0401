"""Every test is of one ring, and `scripts/test` gives pytest each file that has one of its ring."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_common import children
from tests import rings

ROOT = Path(__file__).resolve().parents[2]
FILES = [str(file.relative_to(ROOT)) for file in sorted((ROOT / "tests").rglob("test_*.py"))]


@pytest.mark.parametrize("name", rings.SECOND)
def test_what_is_listed_is_there(name: str) -> None:
    assert (ROOT / "tests" / name).exists()


def test_both_rings_have_all_files() -> None:
    first, second = (rings.of_ring(ring, FILES) for ring in (1, 2))
    assert set(first) | set(second) == set(FILES)
    shared = set(first) & set(second)
    assert all("mark.second_ring" in (ROOT / name).read_text() for name in shared)
    assert "tests/docs/test_pages.py" in shared


def test_folders_are_left_to_pytest() -> None:
    assert rings.of_ring(1, ["tests/mrc_lab", "tests/fuzz/test_engine.py"]) == ["tests/mrc_lab"]


MIXED = """
import pytest

def test_quick():
    pass

@pytest.mark.second_ring
def test_long():
    pass
"""


@pytest.mark.parametrize(("words", "count"), [((), "2"), (("--ring=1",), "1/2"), (("--ring=2",), "1/2")])
def test_a_ring_takes_its_tests_of_a_file(tmp_path: Path, words: tuple[str, ...], count: str) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = second_ring\n")
    (tmp_path / "test_mixed.py").write_text(MIXED)
    (tmp_path / "test_first.py").write_text("def test_it():\n    assert False\n")
    command = children.python("pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "tests.rings", *words)
    done = children.run(
        [*command, str(tmp_path / "test_mixed.py")], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert f"{count} tests collected" in done.stdout or f"{count} test collected" in done.stdout


def test_a_folder_is_searched_for_files_of_the_ring_only(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = second_ring\n")
    (tmp_path / "test_mixed.py").write_text(MIXED)
    (tmp_path / "test_first.py").write_text("raise AssertionError('imported')\n")
    command = children.python("pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "tests.rings")
    done = children.run([*command, "--ring=2", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "1/2 tests collected" in done.stdout
