from __future__ import annotations

import contextlib
import signal
import threading

import pytest

from topologies.emulation.deferred_signals import deferred, orderly


def test_a_signal_is_deferred_to_the_next_check() -> None:
    with deferred() as signals:
        signal.raise_signal(signal.SIGINT)
        step_was_finished = True
        with pytest.raises(KeyboardInterrupt):
            signals.check()
        signals.check()
    assert step_was_finished


def test_an_unchecked_signal_is_raised_at_the_end() -> None:
    reached = False
    with pytest.raises(KeyboardInterrupt), deferred():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        reached = True
    assert reached


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_exits_with_the_status_a_shell_reports(number: signal.Signals) -> None:
    with deferred() as signals:
        signal.raise_signal(number)
        with pytest.raises(SystemExit) as raised:
            signals.check()
    assert raised.value.code == 128 + number


def test_only_the_first_signal_counts() -> None:
    with deferred() as signals:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(SystemExit):
            signals.check()


def test_handlers_are_restored() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with orderly(), deferred():
        pass
    assert {number: signal.getsignal(number) for number in before} == before


def test_orderly_termination_runs_finally_clauses() -> None:
    unwound = []
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit), orderly(), contextlib.ExitStack() as stack:  # noqa: PT012
            stack.callback(unwound.append, True)
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert unwound == [True]


def test_an_existing_handler_is_kept() -> None:
    seen = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with orderly():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [signal.SIGTERM]


def test_other_threads_run_without_signal_handling() -> None:
    done = []

    def work() -> None:
        with orderly(), deferred() as signals:
            signals.check()
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
