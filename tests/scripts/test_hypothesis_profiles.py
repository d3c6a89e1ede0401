"""Property tests of every room, also when the room is tested alone, take what time they need."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def test_no_profile_sets_a_deadline_for_examples() -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
