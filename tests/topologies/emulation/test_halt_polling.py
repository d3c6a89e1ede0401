"""Halt polling of idle processors, as files of a machine show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from topologies.emulation import halt_polling
from topologies.emulation.errors import EmulationError


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a machine whose governor and parameter are the files `governor` and `parameter`."""
    monkeypatch.setattr(halt_polling, "GOVERNOR", tmp_path / "governor")
    monkeypatch.setattr(halt_polling, "PARAMETER", tmp_path / "parameter")
    return tmp_path


def test_a_machine_without_cpuidle_or_with_another_governor_does_not_poll(machine: Path) -> None:
    assert halt_polling.polling_ns() is None
    (machine / "governor").write_text("menu\n")
    (machine / "parameter").write_text("0\n")
    assert halt_polling.polling_ns() is None
    assert not halt_polling.is_off(None)


@pytest.mark.parametrize(
    ("written", "ns", "off"), [("0", 0, True), ("49999", 49_999, True), ("200000", 200_000, False)]
)
def test_a_guest_polls_for_as_long_as_its_parameter_says(machine: Path, written: str, ns: int, off: bool) -> None:
    (machine / "governor").write_text("haltpoll\n")
    (machine / "parameter").write_text(f"{written}\n")
    assert halt_polling.polling_ns() == ns
    assert halt_polling.is_off(ns) is off


def test_a_parameter_that_is_missing_or_no_number_counts_as_none(machine: Path) -> None:
    (machine / "governor").write_text("haltpoll\n")
    assert halt_polling.polling_ns() is None
    (machine / "parameter").write_text("many\n")
    assert halt_polling.polling_ns() is None


def test_turning_it_on_sets_the_usual_time_or_says_why_not(machine: Path) -> None:
    (machine / "governor").write_text("haltpoll\n")
    halt_polling.turn_on()
    assert halt_polling.polling_ns() == halt_polling.USUAL_NS
    (machine / "parameter").unlink()
    (machine / "parameter").mkdir()
    with pytest.raises(EmulationError, match="parameter cannot be changed: Is a directory"):
        halt_polling.turn_on()
