"""When the driver's turn comes, in which order it serves ports, and what time the NIC is given."""

from __future__ import annotations

from collections.abc import Callable

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
