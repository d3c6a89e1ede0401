from __future__ import annotations

import json
import re
import time
from datetime import datetime
from typing import Any

import pytest

from controller.values import Cleared, Event, EventKind, MachineClock
from mrc_lab.commands.fault_command import FaultRequest, describe, describe_event, execute, parse
from mrc_lab.commands.fault_listing import FAULTS, faults
from mrc_lab.errors import ExperimentError
from topologies.faults import Fault, FaultState
from topologies.faults.blackhole import Blackhole
from topologies.faults.corruption import Corruption
from topologies.faults.delay import Delay
from topologies.faults.flap import Flap
from topologies.faults.link_down import LinkDown
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.port_down import PortDown
from topologies.faults.power_off import PowerOff
from topologies.faults.rate import Rate
from topologies.faults.record import FaultRecord

LINK = "t0-0:t1-1@p0"
CUT = FaultRecord("f1", LinkDown(LINK), (LINK,))


class Controller:
    """Remembers what it is asked, and answers with a cut link."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def clock(self) -> MachineClock:
        """Those of this machine."""
        return MachineClock.here()

    def __getattr__(self, name: str) -> Any:
        def method(*args: Any, **options: Any) -> Any:
            self.asked.append((name, *args, *options.values()))
            if name == "faults":
                return [CUT]
            return Cleared((CUT,), (LINK,), 3, 4) if name in ("link_up", "clear", "clear_all", "clear_owner") else CUT

        return method


@pytest.mark.parametrize(
    ("words", "asked", "printed"),
    [
        (f"{LINK} up", ("link_up", LINK), f"up: {LINK}"),
        (f"clear link {LINK}", ("link_up", LINK), f"up: {LINK}; cleared: f1"),
        ("list", ("faults", False), f"fault f1: {LINK} down"),
        ("list all", ("faults", True), f"fault f1: {LINK} down"),
        ("clear f1", ("clear", "f1"), "cleared: f1"),
        ("clear all", ("clear_all",), "cleared: f1"),
        ("clear owner me", ("clear_owner", "me"), "cleared: f1"),
        (f"{LINK} down", ("inject", LinkDown(LINK), 0, 0, ""), f"fault f1: {LINK} down"),
        (
            f"add {LINK} down at +2s for 500ms owner me",
            ("inject", LinkDown(LINK), 2 * 10**9, 5 * 10**8, "me"),
            "fault f1",
        ),
    ],
)
def test_words_are_parsed_as_requests(words: str, asked: tuple[Any, ...], printed: str) -> None:
    controller = Controller()
    assert execute(controller, words.split()).startswith(printed)  # type: ignore[arg-type]
    assert controller.asked == [asked]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (f"{LINK} down t1-1@p0", LinkDown(LINK, "t1-1@p0")),
        (f"{LINK} loss 1%", Loss(LINK, 0.01)),
        ("h1@p0 loss 0.5 h1", Loss("h1@p0", 0.5, "h1")),
        ("h1@p0 corrupt 0.1%", Corruption("h1@p0", 0.001)),
        ("h1@p0 rate 2.5M h1", Rate("h1@p0", 2_500_000, "h1")),
        ("h1@p0 delay 5ms", Delay("h1@p0", 5_000_000)),
        ("h1@p0 flap 2s 25%", Flap("h1@p0", 500_000_000, 1_500_000_000)),
        ("h1@p0 flap 2s random 7", Flap("h1@p0", 10**9, 10**9, True, 7)),
        ("t1-0@p1 blackhole", Blackhole("t1-0@p1")),
        ("h1 port_down 0", PortDown("h1", 0)),
        ("t1-*@p1 power_off", PowerOff("t1-*@p1")),
        ("path 0x402", PathLoss(0x402)),
        ("path 7 25% h1 h3", PathLoss(7, 0.25, "h1", "h3")),
    ],
)
def test_words_are_parsed_as_faults(words: str, fault: Fault) -> None:
    assert parse(words.split()) == FaultRequest(fault)
    assert parse([*words.split(), "owner", "me", "for", "1s"]) == FaultRequest(fault, 0, 10**9, "me")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (LINK, "use it like this"),
        (f"{LINK} sideways", "'sideways' is no kind of fault"),
        (f"{LINK} loss 5", "is 5, but must be above 0 % and at most 100 %: write 5% for 5 in a hundred"),
        (f"{LINK} loss", "say probability .probability for a frame., as in: fault h1@p0 loss 1%"),
        (f"{LINK} loss lots", "probability must be a share such as 20% or 0.2, not 'lots'"),
        (f"{LINK} loss 101%", "is 101%, but must be above 0 % and at most 100 %"),
        (f"{LINK} loss nan", "must be a share"),
        (f"{LINK} down h1 now", "'now' is one word too many"),
        (f"{LINK} loss 0%", "above 0 %"),
        (f"{LINK} rate fast", "a rate such as"),
        (f"{LINK} delay 5", "has no unit"),
        (f"{LINK} delay -5ms", "extra is -5ms, but must be at least 1 ns"),
        (f"{LINK} delay 1e99s", "extra is 1e99s, but must be at most"),
        (f"{LINK} flap", "say period .how often"),
        (f"{LINK} flap random 7", "say period .how often"),
        (f"{LINK} flap 2s 100%", "less than 100 %"),
        (f"{LINK} flap 2s random x", "seed must be a whole number such as 7"),
        (f"{LINK} flap -2s", "period is -2s, but must be at least 2 ns"),
        (f"{LINK} down at 2s", "as in 'at"),
        (f"{LINK} down for", "say what comes after 'for'"),
        (f"{LINK} down for ever", "a time such as"),
        ("", "use it like this"),
        ("list some", "fault list all"),
        ("clear", "fault clear owner NAME"),
        ("clear owner", "fault clear owner NAME"),
        ("clear link", "fault clear link h1@p0"),
        ("clear link h1@p0 h2@p0", "fault clear link h1@p0"),
        (f"{LINK} loss 1% h1 h2", "'h2' is one word too many"),
        ("path x", "ev must be a whole number such as 0x402"),
        ("path -1", "ev is -1, but must be 0x0 to 0xffffffff"),
        ("clear all f2", "fault clear owner NAME"),
    ],
)
def test_invalid_words_are_refused_without_a_request(words: str, message: str) -> None:
    controller = Controller()
    with pytest.raises(ExperimentError, match=message):
        execute(controller, words.split())  # type: ignore[arg-type]
    assert controller.asked == []


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (FaultRecord("f2", Loss(LINK, 0.0125), (LINK,), ("t1-1@p0",)), f"fault f2: {LINK} loss 1.25 %"),
        (
            FaultRecord("f3", Corruption("h*", 1e-9, "h1"), ("h1@p0",), owner="me"),
            "fault f3: h1@p0 corrupt 0.0000001 % towards h1 [me]",
        ),
        (
            FaultRecord("f4", Blackhole("t1-*"), (), ("t1-0@p0", "t1-1@p0")),
            "fault f4: t1-0@p0, t1-1@p0 blackhole",
        ),
        (
            FaultRecord("f5", PathLoss(0x402, source="h1"), (), ("t0-0@p1",)),
            "fault f5: t0-0@p1 path ev 0x402 source h1",
        ),
        (FaultRecord("f6", Rate(LINK, 2_000_000), (LINK,)), f"fault f6: {LINK} rate 2 Mb/s"),
        (FaultRecord("f7", Delay(LINK, 5_000_000), (LINK,)), f"fault f7: {LINK} delay 5 ms"),
        (
            FaultRecord("f8", Flap(LINK, 10**9, 3 * 10**9, True, 7), (LINK,), state=FaultState.CLEARED),
            f"fault f8: {LINK} flap down 1 s up 3 s random seed 7 (cleared)",
        ),
        (
            FaultRecord("f9", PowerOff("t1-0@p0"), (LINK,), problem="No."),
            f"fault f9: {LINK} power_off t1-0@p0 - No.",
        ),
    ],
)
def test_faults_are_printed_on_one_line(record: FaultRecord, line: str) -> None:
    assert describe(record) == line


def test_begin_and_end_of_a_fault_are_printed() -> None:
    soon = time.monotonic_ns() + 3600 * 10**9
    pending = FaultRecord("f1", LinkDown(LINK), (LINK,), state=FaultState.PENDING, starts_at_ns=soon)
    assert re.search(r"\(pending, begins \d\d:\d\d:\d\d, in 3\d{3}\.\d s\)", describe(pending))
    assert re.search(r"\(for another 3\d{3}\.\d s\)", describe(FaultRecord("f1", LinkDown(LINK), ends_at_ns=soon)))


NOON = MachineClock(1_000_000_000, int(datetime(2026, 11, 24, 12, 0, 1).timestamp()) * 10**9)


def test_times_are_those_of_the_clock_on_the_controllers_machine() -> None:
    active = FaultRecord("f1", LinkDown(LINK), (LINK,), began_at_ns=2_500_000_000, ends_at_ns=4_000_000_000)
    assert describe(active, NOON) == f"fault f1: {LINK} down (for another 3.0 s)"
    assert describe(active, NOON, since=True) == f"fault f1: {LINK} down (since 12:00:02, for another 3.0 s)"
    pending = FaultRecord("f2", LinkDown(LINK), (LINK,), state=FaultState.PENDING, starts_at_ns=61_000_000_000)
    assert describe(pending, NOON) == f"fault f2: {LINK} down (pending, begins 12:01:01, in 60.0 s)"


def test_events_are_printed_on_one_line() -> None:
    printed = describe_event(Event(3, 1_500_000_000, EventKind.LINK_DOWN, LINK), NOON)
    assert printed == f"12:00:01.500000 link down {LINK}"
    assert describe_event(Event(0, 0, EventKind.SUBSCRIBED), NOON) == "12:00:00.000000 subscribed"
    printed = describe_event(Event(4, 0, EventKind.FAULT_ADDED, "f1", "", CUT, dropped=7), NOON)
    assert printed == f"12:00:00.000000 fault added fault f1: {LINK} down (7 events lost so far)"
    printed = describe_event(Event(5, 0, EventKind.ENTRIES_REPAIRED, "t0-0@p0", "20 entries"), NOON)
    assert printed == "12:00:00.000000 entries repaired t0-0@p0: 20 entries"


def test_faults_as_json_have_their_parameters_and_times() -> None:
    record = FaultRecord(
        "f3", Loss(LINK, 0.01), (LINK,), ("t1-1@p0",), owner="me", starts_at_ns=1, began_at_ns=2_000_000_000,
        applied_at_ns=2_000_001_000, cleared_at_ns=3_000_002_000, ends_at_ns=3_000_000_000,
    )  # fmt: skip
    (row,) = json.loads(FAULTS.json(faults([record], NOON)))
    assert (row["fault"], row["kind"], row["state"], row["links"], row["owner"]) == (
        "f3",
        "loss",
        "active",
        [LINK],
        "me",
    )
    assert row["parameters"]["probability"] == 0.01
    times = [datetime.fromisoformat(row[f"{which}_time"]) for which in ("start", "applied", "end", "cleared")]
    assert [str(time.replace(tzinfo=None)) for time in times] == [
        "2026-11-24 12:00:02", "2026-11-24 12:00:02.000001", "2026-11-24 12:00:03",
        "2026-11-24 12:00:03.000002",
    ]  # fmt: skip
    (row,) = faults([FaultRecord("f4", LinkDown(LINK), state=FaultState.PENDING, starts_at_ns=10**9)], NOON)
    assert {row[name] for name in ("applied_time", "end_time", "cleared_time", "owner", "problem")} == {None}


def test_repairing_one_link_of_a_pattern_keeps_the_rest_of_the_fault() -> None:
    rest = FaultRecord("f3", LinkDown("h1@p*"), ("h1@p0", "h1@p2"))

    class Repairs(Controller):
        def link_up(self, pattern: str) -> Cleared:
            return Cleared((CUT,), (pattern,), 3, 4, (rest,))

    printed = execute(Repairs(), ["h1@p1", "up"])  # type: ignore[arg-type]
    assert printed == "up: h1@p1; cleared: f1; f3 stays on h1@p0, h1@p2"


@pytest.mark.parametrize("words", ["h1@p0 loss 0", "h1@p0 loss 0.0%", "h1@p0 corrupt 0%"])
def test_zero_loss_is_refused_with_a_hint_how_to_end_a_fault(words: str) -> None:
    with pytest.raises(ExperimentError, match="at most 100 %: to end a fault use 'fault h1@p0 up' or 'fault clear'"):
        parse(words.split())
