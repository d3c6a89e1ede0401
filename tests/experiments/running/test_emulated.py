from dataclasses import replace

import pytest

from experiments.errors import ExperimentError
from experiments.running import emulated
from tests.experiments.files.test_faults import EXAMPLES, load
from tests.experiments.running.cases import case_of
from topologies.clos import multi_plane_clos

WRITE = "{kind: write_bw, pairs: h1>h3}"
FABRIC = multi_plane_clos(planes=2, t0=2, t1=4, hosts=4)


class Controller:
    """Notes what it is asked for."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args, **kwargs: self.calls.append((name, args, kwargs))


def calls(kind):
    controller = Controller()
    for make in emulated.inject(load(kind, EXAMPLES[kind]), controller, FABRIC):
        make()
    return controller.calls


def test_faults_become_what_the_controller_is_asked_for():
    assert calls("link_down") == [("lose", ("h1@p0", 1.0), {"towards": "h1"})]
    assert calls("port_down") == [("link_down", ("h1@p0",), {})]
    assert calls("switch_dead") == [("link_down", (f"t0-{n}:t1-0@p0",), {}) for n in (0, 1)]
    assert calls("switch_silent") == [("silence", ("t1-*@p1",), {})]
    assert calls("loss") == [("lose", ("t0-0:t1-*@p0", 0.01), {"towards": ""})]
    assert calls("corruption") == [("corrupt", ("h1@p0", 0.5), {"towards": ""})]
    assert calls("path_loss") == [("lose_on_path", (1 << 10 | 3, 0.2), {"source": "h1", "destination": ""})]


@pytest.mark.parametrize("kind", sorted(set(EXAMPLES) - set(emulated._POSSIBLE)))
def test_what_only_the_simulation_can_do_is_refused_before_anything_starts(kind):
    case = replace(case_of(WRITE), faults=(load(kind, EXAMPLES[kind]),))
    with pytest.raises(ExperimentError, match=f"line 7: the emulated world cannot make the fault {kind}"):
        emulated.check(case)


def test_rates_go_down_to_what_the_machine_carries_and_never_up(monkeypatch):
    monkeypatch.setattr(emulated, "carried_rate", lambda hosts, planes: 20_000_000)
    case = case_of(WRITE, fabric="{planes: 2, t0: 2, t1: 2, hosts: 4, rate: 100G, uplink_rate: 200G}")
    assert emulated.scale_of(case) == 1e-4
    fabric = emulated.scaled_fabric(case, 1e-4)
    assert {link.rate_bps for link in fabric.links} == {10_000_000, 20_000_000}
    assert emulated.scale_of(case_of(WRITE, fabric="{planes: 1, hosts: 4, rate: 1M}")) == 1.0


def test_settings_that_are_not_timers_are_kept():
    case = case_of(WRITE, transport="{congestion: none, settings: {plane_burst: 3, probe_interval: 4us}}")
    settings = emulated.scaled_fabric(case, 1e-4).settings.transport
    assert (settings.congestion, settings.plane_burst) == ("none", 3)
    assert settings.probe_interval > 1_000_000


def test_a_run_that_would_last_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(emulated, "carried_rate", lambda hosts, planes: 10_000_000)
    with pytest.raises(ExperimentError, match="would last 1000 s"):
        emulated.check(case_of(WRITE, duration="100ms"))
