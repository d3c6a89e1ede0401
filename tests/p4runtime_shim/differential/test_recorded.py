"""What BMv2 did when it was asked (recorded/*.jsonl, made by record.py) is what the embedded switch does."""

from __future__ import annotations

import pytest

from tests.p4runtime_shim.differential import embedded
from tests.p4runtime_shim.differential.scenarios import SCENARIOS
from tests.p4runtime_shim.differential.vectors import FOLDER, from_line


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_outcomes_match_those_recorded_from_bmv2(name: str) -> None:
    lines = (FOLDER / f"{name}.jsonl").read_text().splitlines()
    assert lines
    for number, line in enumerate(lines):
        vector, recorded = from_line(line)
        assert recorded.frames, f"vector {number} sends nothing"
        assert embedded.run(vector)[0] == recorded, f"vector {number}"
