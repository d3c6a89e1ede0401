"""The parts in which `scripts/test` runs the tests: it chooses files by their text, which must not leave out a test."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDING_ROOT = [file for file in (ROOT / "tests/integration").glob("test_*.py") if "mark.root" in file.read_text()]


@pytest.mark.parametrize("file", NEEDING_ROOT, ids=lambda file: file.stem)
def test_a_file_of_fabrics_needs_root_as_a_whole(file: Path) -> None:
    """Tests in it that need no root would be run by no part."""
    text = file.read_text()
    marks = [
        ast.get_source_segment(text, statement)
        for statement in ast.parse(text).body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"
    ]
    assert any("pytest.mark.root" in (mark or "") for mark in marks)
