import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from controller.errors import ControllerError
from controller.fault_limits import EMULATION
from controller.values import Count, PortCounters, SwitchCounters
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.faults import PlannedFault
from mrc_lab.experiments.running import emulated_backend, scaling, switch_counters
from p4runtime_shim.proto import switch_v1_pb2 as pb
from tests.mrc_lab.experiments.running.cases import case_of
from topologies.clos import multi_plane_clos
from topologies.faults.controller_down import ControllerDown
from topologies.faults.delay import Delay
from topologies.faults.flap import Flap
from topologies.faults.loss import Loss
from topologies.faults.path_loss import PathLoss
from topologies.faults.power_off import PowerOff
from topologies.faults.record import FaultRecord
from topologies.faults.reordering import Reordering

WRITE = "{kind: write_bw, pairs: h1>h3}"


def planned(fault):
    """In line 7 of a file, from 1 to 2 us."""
    return PlannedFault(fault, 1_000, 2_000, 7)


class Controller:
    """Notes what it is asked for."""

    def __init__(self):
        self.calls = []
        self.problem = ""
        self.late = 0

    def inject(self, fault, **options):
        self.calls.append((fault, options))
        return FaultRecord(f"f{len(self.calls)}", fault, problem=self.problem)

    def faults(self, *, cleared):
        made = enumerate(self.calls, 1) if cleared else ()
        return [
            FaultRecord(
                f"f{number}",
                fault,
                applied_at_ns=options["at_ns"] + self.late,
                cleared_at_ns=options["at_ns"] + options["duration_ns"],
                problem=self.problem,
            )
            for number, (fault, options) in made
        ]


def stage_with(controller):
    """A backend without its fabric, which needs root: so its attributes are set from outside."""
    backend = object.__new__(emulated_backend.EmulatedBackend)
    backend._controller, backend._ordered, backend.time_scale, backend.rate_scale = controller, {}, 10.0, 0.1
    backend._deviations = ()
    return backend


def test_all_faults_are_sent_to_the_controller_with_their_times():
    controller = Controller()
    backend = stage_with(controller)
    loss = planned(Loss("t0-0:t1-1@p0", 0.01))
    faults = (loss, replace(planned(PowerOff("t1-0@p0")), until=None), replace(loss, at=0))
    called = backend.now()
    begin = asyncio.run(backend.order_faults(faults))
    assert called < begin
    *later, (fault, options) = controller.calls
    assert later == [
        (Loss("t0-0:t1-1@p0", 0.01), {"at_ns": begin + 10_000, "duration_ns": 10_000}),
        (PowerOff("t1-0@p0"), {"at_ns": begin + 10_000, "duration_ns": 0}),
    ]
    assert (fault, options["at_ns"]) == (Loss("t0-0:t1-1@p0", 0.01), 0), (
        "what is there from the beginning is made at once"
    )
    assert begin + 20_000 - backend.now() < options["duration_ns"] < begin + 20_000 - called


def test_a_run_without_faults_begins_at_once():
    backend = stage_with(Controller())
    called = backend.now()
    assert called <= asyncio.run(backend.order_faults(())) <= backend.now()
    assert asyncio.run(backend.check_faults(backend.now())) == []


def test_a_controller_that_takes_too_long_ends_the_run(monkeypatch):
    monkeypatch.setattr(emulated_backend, "_TIME_TO_ORDER_NS", 1)
    with pytest.raises(ExperimentError, match="too slow to take the faults"):
        asyncio.run(stage_with(Controller()).order_faults((planned(Loss("t0-0:t1-1@p0", 0.01)),)))


def ran(controller):
    """What is said of the faults of a run that lasts until one of 10 to 20 us is over, and the backend.

    Time passes only from the order of the faults to long after the end of the run.
    """
    backend = stage_with(controller)
    moments = [1_000_000_000]
    backend.now = lambda: moments[-1]

    async def play():
        begin = await backend.order_faults((planned(Loss("t0-0:t1-1@p0", 0.01)),))
        moments.append(begin + 10_000_000_000)
        return await backend.check_faults(begin + 100_000)

    return asyncio.run(play()), backend


def test_a_fault_that_could_not_be_injected_is_an_error_of_the_run():
    controller = Controller()
    controller.problem = "Switch t1-0@p1 is not reachable."
    said, _ = ran(controller)
    assert said == ["fault f1 could not be made as planned: Switch t1-0@p1 is not reachable."]


def test_a_controller_that_is_gone_at_the_end_is_an_error_of_a_run_with_faults():
    class Gone(Controller):
        def faults(self, *, cleared):
            raise ControllerError("There is no controller any more.")

    said, _ = ran(Gone())
    assert said == ["whether all faults were made as planned is not known: There is no controller any more."]


@pytest.mark.parametrize(("late", "ns"), [(0, 0), (7_000, 7_000), (3_000_000, 90_000)])
def test_how_late_a_fault_was_made_is_known_afterwards(late, ns):
    """At most the rest of the run; the fault is due after 10 us of 100."""
    controller = Controller()
    controller.late = late
    said, backend = ran(controller)
    assert said == []
    assert backend._deviations[0].ns == ns


def test_a_delay_is_refused_with_bmv2():
    case = replace(case_of(WRITE), faults=(planned(Delay("h1@p0", 2_000)),))
    emulated_backend.check(case, scaling.scale_of([case]))
    with (
        pytest.raises(ExperimentError, match="line 7: links of BMv2 cannot be given a delay"),
        emulated_backend.emulated_backend(case, scaling.scale_of([case]), "bmv2"),
    ):
        pass


@pytest.mark.parametrize("fault", [Reordering("h1@p0", 0.1, 3_000), ControllerDown()])
def test_simulation_only_features_are_refused_before_anything_starts(fault):
    case = replace(case_of(WRITE), faults=(planned(fault),))
    with pytest.raises(ExperimentError, match=f"line 7: emulation cannot make the fault {fault.kind.name}"):
        emulated_backend.check(case, scaling.scale_of([case]))


def test_a_flap_too_fast_for_emulated_links_is_refused(monkeypatch):
    monkeypatch.setattr(scaling, "carried_rate", lambda hosts, planes: 10**12)
    case = replace(case_of(WRITE), faults=(planned(Flap("h1@p0", 5_000, 10_000)),))
    with pytest.raises(ExperimentError, match="line 7: a link flaps with times of 10 ms or more"):
        emulated_backend.check(case, scaling.scale_of([case]))


def test_more_faults_than_the_controller_accepts_are_refused_before_anything_starts():
    many = tuple(planned(Loss("h1@p0", 0.1)) for _ in range(EMULATION.max_faults or 0))
    case = replace(case_of(WRITE), faults=many)
    emulated_backend.check(case, scaling.scale_of([case]))
    with pytest.raises(
        ExperimentError, match="there are 1001 faults, but the controller of an emulated fabric takes 1000"
    ):
        emulated_backend.check(replace(case, faults=(*many, planned(Loss("h1@p0", 0.1)))), 1e-3)


def test_a_run_that_would_last_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(scaling, "carried_rate", lambda hosts, planes: 10_000_000)
    with pytest.raises(ExperimentError, match="would last 1000 s"):
        emulated_backend.check(case_of(WRITE, duration="100ms"), 1e-4)


def test_path_losses_that_fit_only_one_at_a_time_are_accepted():
    """Faults of a run that come one after the other."""
    fabric = multi_plane_clos(planes=1, t0=2, t1=2, hosts=64)
    assert emulated_backend.losing_switches(fabric, [PathLoss(0), PathLoss(1)]) == ("t0-0@p0", "t0-1@p0")


def stage_of(fabric):
    """As :func:`stage_with`, with a fabric that is not up."""
    backend = object.__new__(emulated_backend.EmulatedBackend)
    backend._world = SimpleNamespace(fabric=fabric)
    return backend


def test_only_switches_with_loss_faults_are_queried_for_losses():
    fabric = multi_plane_clos(planes=1, t0=2, t1=2, hosts=4)
    asked = []

    class Counting:
        def counters(self, switch):
            asked.append(switch)
            port = next(link for link in fabric.links if link.name == "t0-0:t1-1@p0").upper.port
            return [counters(switch, ports={port: [("arrival loss", 5)]}.items())] if len(asked) < 3 else []

    losing = emulated_backend.losing_switches(fabric, [Loss("t0-0:t1-1@p0", 0.5, "t1-1@p0"), PowerOff("t1-0@p0")])
    assert losing == ("t1-1@p0",)
    backend = stage_of(fabric)
    backend._controller, backend._losing, backend._lost = Counting(), losing, {}
    lines = [f"{link.name}{mark}" for link in fabric.links for mark in "><"]
    for times in (1, 2, 3):  # the third time it does not answer
        rows = dict(zip(lines, asyncio.run(backend.sample_channels()).tolist(), strict=True))
        assert {line: lost for line, (*_, lost) in rows.items() if lost} == {"t0-0:t1-1@p0>": 5}
        assert asked == ["t1-1@p0"] * times


def counters(switch, drops=(), ports=()):
    def counts(pairs):
        return tuple(Count(name, count, 0) for name, count in pairs)

    return SwitchCounters(switch, counts(drops), tuple(PortCounters(port, "", counts(pairs)) for port, pairs in ports))


def test_trims_and_drops_of_switches_are_reported_per_link_direction():
    fabric = multi_plane_clos(planes=1, t0=2, t1=2, hosts=4)
    port = {link.name: link.upper.port for link in fabric.links_of("h1")}["h1@p0"]
    up = next(link for link in fabric.links if link.name == "t0-0:t1-1@p0").lower.port
    found = [
        counters(
            "t0-0@p0",
            [("path loss", 7), ("queue full", 2), ("arrival loss", 8), ("departure loss", 9), ("malformed", 1)],
            [
                (
                    port,
                    [("trimmed_packets", 5), ("arrival loss", 8), ("departure loss", 9), ("departure_corrupted", 3)],
                ),
                (up, [("trimmed_packets", 3), ("path loss", 7), ("queue full", 2)]),
            ],
        ),
        counters("t1-1@p0", [], [(1, [("arrival_corrupted", 2)])]),
    ]
    assert switch_counters.trimmed(fabric, found) == {"h1@p0<": 5, "t0-0:t1-1@p0>": 3}
    assert switch_counters.lost(fabric, found) == {"h1@p0>": 8, "h1@p0<": 9, "t0-0:t1-1@p0<": 7}
    device = fabric.switch("t0-0@p0").device_id
    reported = pb.Port(port=port, drops={"queue_full": 4, "no_headroom": 6, "port_down": 0}, driver={"rx_dropped": 1})
    assert switch_counters.drops(fabric, found, [pb.Switch(device_id=device, ports=[reported])]) == {
        "queue full (by the program), t0-0:t1-1@p0 up": 2,
        "malformed at t0-0@p0": 1,
        "corrupted by a fault, h1@p0 down": 3,
        "corrupted by a fault, t0-0:t1-1@p0 up": 2,
        "queue full, h1@p0 down": 4,
        "no headroom left, h1@p0 up": 6,
        "kernel's receive buffer full, h1@p0 up": 1,
    }


def test_more_random_flows_than_queue_pairs_can_be_made_for_are_refused_in_emulation():
    """Half of 200 Gb/s at each of four hosts in flows of 1000 bytes: 50,000 in a millisecond."""
    flows = "kind: flows, load: 50%, sizes: 1000"
    with pytest.raises(ExperimentError, match=r"about 50,000 flows would begin, .* 20,000 are the most"):
        emulated_backend.check(case_of(f"{{{flows}}}", "1ms"), 0.001)
    with pytest.raises(ExperimentError, match="about 11,000 flows"):
        emulated_backend.check(case_of(f"{{{flows}, count: 11000}}", "1ms", transport="{qps: 2}"), 0.001)
    for keys in ("count: 11000", "connections: shared", "until: 300us"):
        emulated_backend.check(case_of(f"{{{flows}, {keys}}}", "1ms"), 0.001)
