"""When the driver's turn comes, in which order it serves ports, and what time the NIC is given."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from mrc_host.driver.nic_driver import TRANSMIT_BATCH
from tests.mrc_host.driver.rig import Rig


def test_a_frame_made_ready_on_another_port_leaves_in_the_same_turn(rigs: Callable[..., Rig]) -> None:
    rig = rigs(rate=0)
    nic, offer = rig.nic, rig.nic.transmit
    nic.offered[1].append(bytes(60))

    def transmit(port: int, now: int) -> bytes | None:
        frame = offer(port, now)
        if frame is not None and port == 1:
            nic.offered[0].append(bytes(61))
            nic.wake = 0
        return frame

    nic.transmit = transmit  # type: ignore[method-assign]
    rig.step()
    assert [len(port.sent) for port in rig.opened] == [1, 1]


def test_an_idle_driver_waits_for_input_or_the_nic(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    assert rig.step() is None
    rig.nic.wake = rig.time + 777
    assert rig.step() == rig.time + 777
    assert rig.nic.ticks == []
    rig.time += 777
    assert rig.step() is None
    assert rig.nic.ticks == [rig.time]


def test_time_never_runs_backwards_for_the_nic(rigs: Callable[..., Rig]) -> None:
    rig = rigs()

    def clock() -> int:
        rig.time += 1_000  # sending takes time
        return rig.time

    rig.clock = clock
    for _ in range(10):
        rig.nic.wake = rig.time
        for port in (0, 1):
            rig.nic.offered[port].extend([bytes(60)] * (TRANSMIT_BATCH + 3))
            rig.opened[port].arrive(bytes(60))
            rig.ready(port)
        again = rig.step()
        assert again is None or again >= rig.nic.times[-1] - 1_000
        rig.nic.wake = rig.time - 500  # something became due while the lines were served
        rig.step()
    assert len(rig.nic.times) > 100
    assert rig.nic.times == sorted(rig.nic.times)


class Chain:
    """Frames of which each lets the next leave, on another port or the same, as the answers of one queue pair."""

    def __init__(self, rig: Rig, ports: Iterator[int]) -> None:
        self.sent: list[int] = []
        self._nic, self._offer, self._ports = rig.nic, rig.nic.transmit, ports
        rig.nic.transmit = self.transmit  # type: ignore[method-assign]
        self._extend()

    def transmit(self, port: int, now: int) -> bytes | None:
        frame = self._offer(port, now)
        if frame is not None:
            self.sent.append(port)
            self._extend()
        return frame

    def _extend(self) -> None:
        port = next(self._ports, None)
        if port is not None:
            self._nic.offered[port].append(bytes(60))
            self._nic.wake = 0


@pytest.mark.parametrize("ports", [(1, 0) * 12, (0, 1) * 12, (1, 1, 0) * 8, (0,) * 10, (1, 0)])
def test_answers_that_wait_for_one_another_leave_in_one_turn(rigs: Callable[..., Rig], ports: tuple[int, ...]) -> None:
    rig = rigs(rate=0)
    chain = Chain(rig, iter(ports))
    rig.step()
    assert chain.sent == list(ports)


def test_a_chain_without_end_lets_others_have_their_turn(rigs: Callable[..., Rig]) -> None:
    rig = rigs(rate=0)
    chain = Chain(rig, itertools.cycle((1, 0)))
    again = rig.step()
    assert 2 <= len(chain.sent) < 1000
    assert again is not None
    assert again <= rig.time


def test_a_nic_that_is_due_at_once_and_sends_nothing_is_asked_a_few_times(rigs: Callable[..., Rig]) -> None:
    rig = rigs(rate=0)
    rig.nic.offered[1].append(bytes(60))
    asked = []

    def wakeup() -> int:
        asked.append(rig.time)
        return 0

    rig.nic.wakeup = wakeup  # type: ignore[method-assign]
    rig.step()
    assert len(rig.nic.ticks) <= 4
    assert len(asked) <= 8
