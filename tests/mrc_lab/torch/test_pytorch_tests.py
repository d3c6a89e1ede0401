"""PyTorch's own tests of process groups end as the table says, and the page has its totals from there."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS
from tests.mrc_lab.torch.pytorch_tests import cases_of_wheel, expected, run
from tests.outcomes import Outcome

needs_torch = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "expecttest")),
    reason="PyTorch or expecttest is not installed: pip install '.[torch]' expecttest",
)


@needs_torch
@pytest.mark.timeout(900)
def test_torchs_tests_pass_that_the_table_says_pass_and_no_others(tmp_path: Path) -> None:
    wanted = {name: outcome for name, outcome in expected().items() if outcome.outcome != "skipped"}
    found = {outcome.test: outcome for outcome in run(tmp_path, sorted(wanted))}
    assert found.keys() == wanted.keys()
    other = {
        name: (wanted[name].outcome, is_now) for name, is_now in found.items() if is_now.outcome != wanted[name].outcome
    }
    assert not other


@needs_torch
def test_the_table_has_every_test_of_the_wheel(tmp_path: Path) -> None:
    assert cases_of_wheel(tmp_path) == sorted(expected())


def test_the_page_gives_the_tables_totals() -> None:
    table = expected().values()
    totals = Counter(outcome.outcome for outcome in table)
    page = re.sub(r"\s+", " ", (DOCS / "pytorch.md").read_text())
    cuda = sum(outcome == Outcome(outcome.test, "skipped", "it needs CUDA") for outcome in table)
    assert f"Of the {len(table)} tests of process groups in PyTorch 2.13's wheel" in page
    assert f"{totals['passed']} pass, {totals['failed']} fail and {totals['skipped']} are skipped" in page
    assert f"{cuda} of them for lack of CUDA" in page
