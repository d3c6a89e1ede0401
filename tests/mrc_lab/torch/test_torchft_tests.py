"""torchft's own tests end as the table says, and the page has its totals from there."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS
from tests.mrc_lab.torch.torchft_tests import cases_of_wheel, expected, run

needs_torchft = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "torchft", "parameterized")),
    reason="PyTorch, torchft or parameterized is not installed: pip install '.[torch,torchft]' parameterized",
)


@needs_torchft
@pytest.mark.timeout(900)
def test_torchfts_tests_pass_that_the_table_says_pass_and_no_others(tmp_path: Path) -> None:
    wanted = {name: outcome for name, outcome in expected().items() if outcome.outcome != "skipped"}
    found = {outcome.test: outcome for outcome in run(tmp_path, sorted(wanted))}
    assert found.keys() == wanted.keys()
    other = {
        name: (wanted[name].outcome, is_now) for name, is_now in found.items() if is_now.outcome != wanted[name].outcome
    }
    assert not other


@needs_torchft
def test_the_table_has_every_test_of_the_wheels_modules(tmp_path: Path) -> None:
    assert sorted(cases_of_wheel(tmp_path)) == sorted(expected())


def test_the_page_gives_the_tables_totals() -> None:
    table = expected().values()
    totals = Counter(outcome.outcome for outcome in table)
    page = re.sub(r"\s+", " ", (DOCS / "training-faults.md").read_text())
    assert f"Of the {len(table)} tests" in page
    assert f"{totals['passed']} pass, {totals['failed']} fail and {totals['skipped']} are skipped" in page
    for reason, number in Counter(outcome.reason for outcome in table if outcome.outcome == "skipped").items():
        assert f"| {reason} | {number} |" in page
