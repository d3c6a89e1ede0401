"""The swarm finds nothing in a few dozen seeds, and does find what is put there."""

from dataclasses import replace

import pytest

from mrc_host.verbs.local import LocalProvider
from mrc_host.verbs_types import CompletionOpcode, QpAttributes, QpType
from simulation.world import SimulatedWorld
from tests.simulation.worlds import GIGA, small_fabric
from tests.swarm import excused_failures
from tests.swarm.denylists import Denied, addresses
from tests.swarm.generate_scenario import generate, plain
from tests.swarm.plans import plan, write
from tests.swarm.run import SwarmRun, run
from tests.swarm.scenario import ScenarioFault
from topologies.faults.link_down import LinkDown
from topologies.faults.power_off import PowerOff


@pytest.mark.parametrize("first", range(1, 41, 5))
def test_some_seeds_run_clean(first):
    for seed in range(first, first + 5):
        assert run(generate(seed)).violations == (), f"replay: python -m tests.swarm --seed {seed}"


def test_a_run_can_be_repeated():
    assert run(generate(7)) == run(generate(7))


def busy_seed():
    """A plan with MRC pairs only, immediates and no faults."""
    for seed in range(1, 1000):
        plan = plain(seed)
        imms = sum(write.imm for write in plan.writes)
        if imms > 2 and not plan.faults and all(pair.kind is QpType.MRC for pair in plan.pairs):
            return plan
    raise AssertionError


def test_a_double_completion_is_found(monkeypatch):
    honest = LocalProvider.poll_cq

    def poll(self, cq, max_entries):
        pending = self.__dict__.pop("_echo", None)
        if pending:
            return pending
        found = honest(self, cq, max_entries)
        if found and found[0].opcode is CompletionOpcode.WRITE:
            self._echo = found[:1]
        return found

    monkeypatch.setattr(LocalProvider, "poll_cq", poll)
    assert any("completed twice" in text for text in run(busy_seed()).violations)


def test_a_lost_completion_is_found(monkeypatch):
    honest = LocalProvider.poll_cq
    monkeypatch.setattr(LocalProvider, "poll_cq", lambda self, cq, n: honest(self, cq, n) and [])
    assert any("missing" in text for text in run(busy_seed()).violations)


def test_wrong_bytes_are_found(monkeypatch, buffers):
    """The damage is done in memory, behind the back of the ICRC."""
    join = SimulatedWorld._join

    def damage(*_):
        for buffer in buffers[1::4]:
            buffer[len(buffer) // 2] = (buffer[len(buffer) // 2] + 1) % 256  # an even number of times too

    def join_and_damage(world):
        """Each frame that leaves a NIC does damage."""
        join(world)
        for nic in world.fabric.nic_names:
            world.nic_node(nic).watch(damage)

    monkeypatch.setattr(SimulatedWorld, "_join", join_and_damage)
    assert run(busy_seed()).violations


def denied_seed():
    """A plan with MRC pairs only, whose controller denies something while it is written."""
    for seed in range(1, 1000):
        plan = plain(seed)
        denials = [fault for fault in plan.faults if isinstance(fault.fault, Denied)]
        if len(denials) > 1 and len(plan.writes) > 5 and all(pair.kind is QpType.MRC for pair in plan.pairs):
            return plan
    raise AssertionError


def test_denials_are_applied_and_respected():
    plan = denied_seed()
    assert run(plan).violations == ()
    without = replace(plan, faults=tuple(fault for fault in plan.faults if not isinstance(fault.fault, Denied)))
    assert run(without).trace != run(plan).trace, "the denylist changed what was sent"


@pytest.mark.plain_transport
def test_a_denied_path_in_use_is_found(monkeypatch):
    """NICs that do not listen to the controller."""
    routes = tuple(
        route for nic in busy_seed().fabric.nics for route in addresses(busy_seed().fabric, nic.name).values()
    )
    plan = replace(busy_seed(), faults=(ScenarioFault(Denied(routes), 0, 3_600_000_000_000),))
    monkeypatch.setattr("mrc_host.transport.control_plane.NicControlPlane.set_path_denied", lambda *_: None)
    monkeypatch.setattr(excused_failures, "longest_separation", lambda *_: 0)
    assert any("though it is denied" in text for text in run(plan).violations)


@pytest.mark.parametrize("seed", [140, 174])
def test_a_second_loss_on_a_plane_with_all_paths_denied_is_survived(seed):
    """A queue pair looked for a silent path to suspect, and there was none at all."""
    assert run(plain(seed)).violations == ()


@pytest.mark.parametrize("seed", [5582, 5590, 5826])
def test_answers_move_off_a_plane_with_all_paths_denied(seed):
    """A receiver kept its answers for a plane on which all its paths were denied."""
    assert run(plain(seed)).violations == ()


@pytest.mark.parametrize("seed", [32400])
def test_port_status_updates_are_sent_despite_outdated_port_status(seed):
    """A port status update went only on planes that an older one left, which were dead or denied."""
    assert run(plain(seed)).violations == ()


def test_a_one_packet_window_sends_one_packet_per_round_trip():
    made = plan(writes=[write(length=300_000)] * 8)
    narrow = replace(made.pairs[0].attributes, congestion_window=4096, timeout=5)
    outcome = run(replace(made, pairs=(replace(made.pairs[0], attributes=narrow),)))
    assert outcome.violations == ()
    assert outcome.end > 500 * made.fit.round_trip


@pytest.mark.second_ring
def test_a_failure_without_a_reason_is_found(monkeypatch):
    """Every link is down, but the oracle believes that none is."""
    monkeypatch.setattr(excused_failures, "longest_separation", lambda *_: 0)
    broken = replace(busy_seed(), faults=(ScenarioFault(LinkDown("h*", towards="t0-*"), 0, 3_600_000_000_000),))
    assert any("failed" in text for text in run(broken).violations)


def test_some_plans_have_flow_control():
    paused = [seed for seed in range(1, 60) if plain(seed).fabric.queues.pfc]
    assert 3 <= len(paused) <= 20
    assert run(plain(paused[0])).violations == ()


@pytest.mark.parametrize("seed", range(-12, 0))
def test_three_tier_fabrics_run_clean(seed):
    scenario = generate(seed)
    assert plain(seed).fabric.t2_count  # some kinds of trouble bring a fabric of their own
    assert run(scenario).violations == (), f"replay: python -m tests.swarm --seed {seed}"


def test_a_cut_of_the_only_active_path_excuses_timeouts():
    """Nothing was measured yet, and the packet has one path to go: seed 600506."""
    on = small_fabric(planes=1, t1=4, rate_bps=100 * GIGA)
    timeouts = []
    for number in range(4):
        cut = (PowerOff(f"t1-{number}@p0"), 0, 4_000_000)
        done = SwarmRun(plan(cut, on=on, writes=[write(time=1_000)], attributes=QpAttributes(active_paths=1)))
        assert done.play().violations == ()
        timeouts.append(sum(end.qp.counters().timeouts for end in done.applications.pairs[0]))
    assert timeouts.count(0) == 3, "three cuts are elsewhere"


@pytest.mark.parametrize(
    ("seed", "faults", "writes"),
    [
        (1300130, (0, 3), (1, 3, 4, 24)),  # posted behind a full window, with all paths denied: it never failed
        (1301466, (3, 4), (50, 58)),  # the peer was out of reach, and came back with ports that it never reported down
        # a write was given up before a slow poller saw that it had completed, which is no mistake
        (1418789, (5, 6, 7), (102, 108, 109, 110, 111, 112, 125, 201)),
        # after a timeout it was sent on a dead plane, though a probe had arrived on the other
        (2301963, (0, 1, 5), (3,)),
        # a packet that had arrived counted as work that waits for the window, so nobody asked for the transport ACK
        (2405695, (2, 3), (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20)),
        # a window was lost with its plane, and sent again once on one that was dead, too, which is no storm
        (6119344, (10, 11, 12, 13), (31, 32, 33, 34, *range(50, 70))),
    ],
)
def test_plans_that_once_broke_a_promise_keep_all(seed, faults, writes):
    assert run(generate(seed).only(faults=faults, writes=writes)).violations == ()
