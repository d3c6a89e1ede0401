from __future__ import annotations

from typing import Any

import pytest

from controller.values import Cleared, Fault, FaultKind
from experiments.cli.fault_command import carry_out, describe, parse_share
from experiments.errors import ExperimentError
from topologies.fault_entries import LinkFault, PathLoss, SwitchSilent

LINK = "t0-0:t1-1@p0"
CUT = Fault("f1", FaultKind.LINK_DOWN, LINK, (LINK,), "", 1, 2)


class Controller:
    """Remembers what it is asked, and answers with a cut link."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def method(*args: Any, **options: Any) -> Any:
            self.asked.append((name, *args, *options.values()))
            if name == "faults":
                return [CUT]
            return Cleared((CUT,), (LINK,), 3, 4) if name in ("link_up", "clear", "clear_all") else CUT

        return method


@pytest.mark.parametrize(
    ("words", "asked", "told"),
    [
        (f"{LINK} down", ("link_down", LINK), f"fault f1: {LINK} down"),
        (f"{LINK} up", ("link_up", LINK), f"up: {LINK}"),
        (f"{LINK} loss 1%", ("lose", LINK, 0.01, ""), "fault f1"),
        ("h1@p0 loss 0.5 h1", ("lose", "h1@p0", 0.5, "h1"), "fault f1"),
        ("h1@p0 corrupt 0.1%", ("corrupt", "h1@p0", 0.001, ""), "fault f1"),
        ("t1-0@p1 silent", ("silence", "t1-0@p1"), "fault f1"),
        ("path 0x402", ("lose_on_path", 0x402, 1.0, "", ""), "fault f1"),
        ("path 7 25% h1 h3", ("lose_on_path", 7, 0.25, "h1", "h3"), "fault f1"),
        ("list", ("faults",), f"fault f1: {LINK} down"),
        ("clear f1", ("clear", "f1"), "cleared: f1"),
        ("clear all", ("clear_all",), "cleared: f1"),
    ],
)
def test_words_become_requests(words: str, asked: tuple[Any, ...], told: str) -> None:
    controller = Controller()
    assert carry_out(controller, words.split()).startswith(told)  # type: ignore[arg-type]
    assert controller.asked == [asked]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (LINK, "use it like this"),
        (f"{LINK} sideways", "not 'sideways'"),
        (f"{LINK} loss", "say how much"),
        (f"{LINK} loss lots", "a share is 0% to 100%, not 'lots'"),
        (f"{LINK} loss 101%", "a share is"),
        (f"{LINK} loss nan", "a share is"),
        (f"{LINK} down now", "'now' is one word too many"),
        (f"{LINK} loss 1% h1 h2", "'h2' is one word too many"),
        ("path x", "an entropy value is a number"),
        ("path -1", "has 32 bits"),
        ("clear f1 f2", "'f2' is one word too many"),
    ],
)
def test_what_makes_no_sense_is_one_sentence_and_asks_for_nothing(words: str, sentence: str) -> None:
    controller = Controller()
    with pytest.raises(ExperimentError, match=sentence):
        carry_out(controller, words.split())  # type: ignore[arg-type]
    assert controller.asked == []


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (
            Fault("f2", FaultKind.LOSS, LINK, (LINK,), "", 1, 2, LinkFault(LINK, loss=12_500_000), ("t1-1@p0",)),
            f"fault f2: {LINK} loss 1.25% towards *",
        ),
        (
            Fault("f3", FaultKind.CORRUPTION, "h*", ("h1@p0",), "", 1, 2, LinkFault("h*", corruption=1, towards="h1")),
            "fault f3: h1@p0 corrupt 0.0000001% towards h1",
        ),
        (
            Fault("f4", FaultKind.SWITCH_SILENT, "t1-*", (), "", 1, 2, SwitchSilent("t1-*"), ("t1-0@p0", "t1-1@p0")),
            "fault f4: t1-0@p0, t1-1@p0 silent",
        ),
        (
            Fault("f5", FaultKind.PATH_LOSS, "", (), "", 1, 2, PathLoss(0x402, 10**9, "h1"), ("t0-0@p1",)),
            "fault f5: t0-0@p1 loss 100% on path 0x402 from h1 to *",
        ),
    ],
)  # fmt: skip
def test_faults_are_told_in_a_line(fault: Fault, line: str) -> None:
    assert describe(fault) == line


def test_shares() -> None:
    assert [parse_share(text) for text in ("0", "1", "100%", "0.1%", "1e-9")] == [0, 1, 1, 0.001, 1e-9]
