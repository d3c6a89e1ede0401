"""Waiting for descriptors and a time at once, in C."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from time import monotonic_ns
from types import ModuleType

import pytest

from tests.mrc_host.driver.rings import compiled_extension

MILLISECOND = 1_000_000
MOST = 64


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return compiled_extension("event_wait")


@pytest.fixture
def epoll() -> Iterator[select.epoll]:
    with select.epoll() as made:
        yield made


def test_it_waits_for_as_long_as_asked_and_no_less(module: ModuleType, epoll: select.epoll) -> None:
    for wait in (0, 1, 300_000, 3 * MILLISECOND + 1):
        start = monotonic_ns()
        assert module.wait(epoll.fileno(), wait) == []
        assert monotonic_ns() - start >= wait


def test_what_is_ready_is_named_with_its_mask(module: ModuleType, epoll: select.epoll) -> None:
    read, write = os.pipe()
    epoll.register(read, select.EPOLLIN)
    epoll.register(write, select.EPOLLOUT)
    assert module.wait(epoll.fileno(), -1) == [(write, select.EPOLLOUT)]
    os.write(write, b"x")
    assert dict(module.wait(epoll.fileno(), 0)) == {read: select.EPOLLIN, write: select.EPOLLOUT}
    os.close(read)
    assert dict(module.wait(epoll.fileno(), 0))[write] & select.EPOLLERR
    os.close(write)


def test_more_than_it_names_at_a_time_are_named_the_next_time(module: ModuleType, epoll: select.epoll) -> None:
    numbers = [os.eventfd(1) for _ in range(MOST + 10)]
    for number in numbers:
        epoll.register(number, select.EPOLLIN)
    first = {number for number, _ in module.wait(epoll.fileno(), 0)}
    second = {number for number, _ in module.wait(epoll.fileno(), 0)}
    assert len(first) == MOST
    assert first | second == set(numbers)
    for number in numbers:
        os.close(number)


def test_a_signal_ends_the_wait_and_its_handler_may_raise(module: ModuleType, epoll: select.epoll) -> None:
    def raises(*_: object) -> None:
        raise KeyError("handled")

    for handler in (lambda *_: None, raises):
        previous = signal.signal(signal.SIGUSR1, handler)
        timer = threading.Timer(0.02, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1))
        timer.start()
        try:
            if handler is raises:
                with pytest.raises(KeyError, match="handled"):
                    module.wait(epoll.fileno(), -1)
            else:
                assert module.wait(epoll.fileno(), -1) == []
        finally:
            timer.join()
            signal.signal(signal.SIGUSR1, previous)


def test_nonsense_is_refused(module: ModuleType, epoll: select.epoll) -> None:
    for arguments in ((), (1,), (1, 2, 3), ("1", 2), (1, None)):
        with pytest.raises(TypeError):
            module.wait(*arguments)
    with pytest.raises(OverflowError):
        module.wait(epoll.fileno(), 1 << 63)
    with pytest.raises(OSError, match="Bad file descriptor"):
        module.wait(-1, 0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        module.wait(1 << 40, 0)
