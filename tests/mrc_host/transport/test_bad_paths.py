"""Background probes when there are many of them, or the NIC is woken late."""

from dataclasses import replace

import pytest

from mrc_host.config import TransportSettings
from mrc_host.verbs_types import PathReason
from mrc_host.wire import control
from tests.mrc_host.nic_world import MS, path_events
from tests.mrc_host.transport.far_end import FarEnd, Packet
from tests.mrc_host.transport.test_peer import answer, quiet, requests

SETTINGS = TransportSettings()


def bad(count: int, settings: TransportSettings = SETTINGS, planes: int = 1) -> FarEnd:
    """A NIC that holds so many paths for bad."""
    end = FarEnd(planes=planes, uplinks=128, transport=settings)
    quiet(end)
    for index in range(count):
        end.qp.requester.paths.retire(index, PathReason.LOSS, None, end.now)
    path_events(end.nic)
    return end


def wait_late(end: FarEnd, duration: int, step: int) -> list[Packet]:
    """Time passes, and the NIC is woken only every `step`."""
    out: list[Packet] = []
    for _ in range(duration // step):
        end.now += step
        end.nic.tick(end.now)
        out += end.drain()
    return out


@pytest.mark.parametrize("step", [1 * MS, 10 * MS, 40 * MS])
def test_every_bad_path_is_probed_even_if_the_nic_wakes_late(step: int) -> None:
    """The last path works again, the first hundred stay dead: it does not wait for them."""
    end = bad(101)
    alive = 100
    restored = 0
    while not restored and end.now < 20_000 * MS:
        for probe in requests(wait_late(end, step, step), control.OP_EV_PROBE):
            if probe.ev == alive:
                answer(end, probe)
        restored = sum(event.ev == alive for event in path_events(end.nic))
        if end.now > 8_000 * MS:
            break
    began = 5_000 * MS + 40 * MS  # `quiet` takes about as long
    assert restored
    assert end.now - began < 500 * MS + 3 * step


def test_a_lost_probe_costs_one_probe_timeout() -> None:
    """Every second probe of a live path is lost on the way: it still returns, once enough in a row come back."""
    end = bad(1, replace(SETTINGS, probe_successes=2))
    lost = 0
    start = end.now
    while not path_events(end.nic):
        for probe in requests(end.wait(MS), control.OP_EV_PROBE):
            if lost < 3:
                lost += 1
            else:
                answer(end, probe)
    waits = SETTINGS.probe_timeout * (1 + 2 + 4) + 2 * SETTINGS.probe_interval
    assert end.now - start <= waits + 3 * MS


def test_probes_lost_at_port_down_do_not_delay_path_recovery() -> None:
    """A path goes bad long before its plane is lost, and its probes are lost with it: when the plane is back, probes
    begin at once and with the first probe timeout."""
    end = bad(1, replace(SETTINGS, flap_window=0), planes=2)
    end.wait(700 * MS)
    end.nic.port_changed(0, False, end.now)
    end.wait(5_000 * MS)
    end.nic.port_changed(0, True, end.now)
    start = end.now
    while not any(event.ev == 0 for event in path_events(end.nic)):
        for probe in requests(end.wait(MS), control.OP_EV_PROBE):
            answer(end, probe)
        assert end.now - start < 200 * MS
    assert end.now - start <= 2 * SETTINGS.probe_interval + 3 * MS
