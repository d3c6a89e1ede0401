"""rdma-core's own tests of pyverbs end as the table says, and the page has its totals from there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS
from tests.mrc_host.libibverbs.rdma_core_tests import TABLE, checkout, expected, missing, run
from tests.outcomes import read_table


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_rdma_cores_tests_end_as_the_table_says(tmp_path: Path) -> None:
    source = checkout()
    assert source is not None
    found = {outcome.test: outcome for outcome in run(source, tmp_path)}
    known = {test: wanted for test in found if (wanted := expected(test)) is not None}  # other versions have others
    assert {wanted.test for wanted in known.values()} == set(read_table(TABLE))
    other = {test: found[test] for test, wanted in known.items() if found[test].outcome != wanted.outcome}
    assert not other


def test_the_page_gives_the_tables_totals() -> None:
    table = read_table(TABLE).values()
    passed, failed = (sum(one.outcome == kind for one in table) for kind in ("passed", "failed"))
    page = re.sub(r"\s+", " ", (DOCS / "applications.md").read_text())
    assert f"{passed} pass, {failed} fail" in page
