"""What tests wait for has less time on paper than on a busy machine."""

from __future__ import annotations

import pytest

from tests import waiting


def test_a_second_of_a_busy_machine_takes_less_than_one_of_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    now, share = 0.0, 1.0
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now)
    monkeypatch.setattr(waiting, "share", lambda: share)
    budget = waiting._Budget(10.0, "the bus")
    now = 9.0
    budget.check()
    now, share = 13.0, 0.1
    budget.check()
    now, share = 14.0, 1.0
    with pytest.raises(AssertionError, match=r"^waited 10 s for the bus"):
        budget.check()
