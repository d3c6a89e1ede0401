"""The controller API: over a NIC in this process, and through an agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mrc_host import verbs
from mrc_host.config import TransportSettings
from mrc_host.errors import InvalidArgumentError, NotFoundError
from mrc_host.verbs import ClosedError, Context, Controller, LocalProvider, RejectedError
from mrc_host.verbs_types import (
    EvField,
    EvMode,
    EvProfile,
    PathEvent,
    PathReason,
    PathState,
    QpAddress,
    QpAttributes,
    QpState,
    QpType,
)
from tests.mrc_host.agent.conftest import Agents, agents
from tests.mrc_host.nic_world import MS, World, address, connect, peers

__all__ = ["agents"]


class Local:
    """A controller of NIC 0 of a simulated world."""

    def __init__(self) -> None:
        self.world = World(planes=2, uplinks=4)
        nic = self.world.nics[0]
        self.provider = LocalProvider(nic, lambda: self.world.now, poke=self.poke, advance=self.advance)
        self.controller = Controller(self.provider)

    def poke(self) -> None:
        self.world.pump(0)

    def advance(self, deadline: int | None) -> bool:
        end = self.world.now + 2_000 * MS if deadline is None else deadline
        while self.world.now < end:
            self.world.run(1 * MS)
            if self.provider.dispatch():
                return True
        return deadline is not None


@pytest.fixture
def local() -> Local:
    return Local()


# ---- on a real NIC -------------------------------------------------------------------------------------------------


def test_a_path_probe_measures_its_rtt(local: Local) -> None:
    far = local.controller.destination("n1")
    local.world.faults.plane_delay[1] = 50_000
    near, slow = (local.controller.ping(far.address, ev) for ev in (0x002, 0x402))
    assert (near.peer, near.ev, near.plane) == (address(1), 0x002, 0)
    assert near.rtt is not None
    assert slow.rtt is not None
    assert 2 * local.world.delay <= near.rtt <= 2 * local.world.delay + 60_000
    assert slow.rtt > 50_000 + 2 * local.world.delay
    assert slow.port in (0, 1)
    assert near.service_time_subtracted
    assert near.time <= slow.time


def test_a_probe_on_a_dead_path_times_out(local: Local) -> None:
    local.world.faults.dead_paths.add((0, 3))
    before = local.world.now
    result = local.controller.ping(address(1), 3, 20 * MS)
    assert (result.rtt, result.port, result.ev) == (None, None, 3)
    assert 20 * MS <= result.time - before <= 21 * MS
    assert local.world.nics[0].nic_counters()["drop_stale_response"] == 0


def test_concurrent_probes_are_distinguished_and_bounded(local: Local) -> None:
    far = local.controller.destination("n1")

    def one_way(nic: int, port: int, _to: int, frame: bytes, _now: int) -> bytes | None:
        return None if nic == 0 and port == 1 and frame[45] & 3 == 1 else frame

    local.world.tap = one_way  # answers get through
    numbers = {local.controller.probe(far.address, ev, 30 * MS): ev for ev in far.evs for _ in range(5)}
    assert len(numbers) == 40
    local.world.run(100 * MS)
    for number, ev in numbers.items():
        result = local.controller.probe_result(number)
        assert result is not None
        assert result.ev == ev
        assert (result.rtt is None) == (ev == 0x401)
    with pytest.raises(NotFoundError, match="was taken"):
        local.controller.probe_result(next(iter(numbers)))
    for _ in range(1024):
        local.controller.probe(far.address, 0x401, 1000 * MS)
    with pytest.raises(verbs.MrcError, match="1024"):
        local.controller.probe(far.address, 0x401, 1000 * MS)


def test_invalid_probe_requests_are_refused(local: Local) -> None:
    with pytest.raises(NotFoundError, match="0x77777"):
        local.controller.probe(address(1), 0x77777)
    with pytest.raises(NotFoundError, match="knows no NIC"):
        local.controller.probe(address(7), 0)
    with pytest.raises(InvalidArgumentError, match="timeout"):
        local.controller.probe(address(1), 0, 0)
    with pytest.raises(NotFoundError, match="n1"):
        local.controller.destination("h77")


def test_denied_paths_carry_nothing_and_are_listed(local: Local) -> None:
    one, two = connect(local.world)
    local.controller.deny(address(1), 0x001)
    assert [(d.peer, d.ev) for d in local.controller.denied()] == [(address(1), 0x001)]
    event = local.controller.poll_ev_event()
    assert event is not None
    assert (event.ev, event.new, event.reason) == (0x001, PathState.DENIED, PathReason.CONTROLLER)
    before = {p.ev: p.sent for p in one.nic.qp_paths(one.qpn)}
    one.write(two, 1 << 18)
    assert local.world.run(until=lambda: bool(one.poll()))
    after = {p.ev: p.sent for p in one.nic.qp_paths(one.qpn)}
    assert after[0x001] == before[0x001]
    assert sum(after.values()) >= 64
    round_trips = {p.ev: p.rtt for p in one.nic.qp_paths(one.qpn)}
    assert round_trips.pop(0x001) == 0, "nothing was acknowledged there"
    assert any(round_trips.values())
    assert max(round_trips.values()) < local.world.now
    local.controller.allow(address(1), 0x001)
    assert local.controller.denied() == ()
    third, _ = connect(local.world)
    local.controller.deny(address(1), 0x002)
    fourth, _ = connect(local.world)
    for end in (one, third, fourth):
        assert {p.ev for p in end.nic.qp_paths(end.qpn) if p.state is PathState.DENIED} == {0x002}


def test_port_status_of_both_ends_is_queried(local: Local) -> None:
    connect(local.world)
    local.world.run(20 * MS)
    local.world.set_port(0, 1, False)
    local.world.set_port(1, 0, False)
    local.world.run(20 * MS)
    assert [(p.port, p.up, p.local) for p in local.controller.ports()] == [(0, True, True), (1, False, True)]
    local.world.set_port(1, 0, True)
    local.world.set_port(1, 1, False)
    local.world.run(20 * MS)
    assert [(p.port, p.up, p.local) for p in local.controller.ports(address(1))] == [
        (0, True, False),
        (1, False, False),
    ]
    with pytest.raises(NotFoundError):
        local.controller.ports(address(9))


def test_unread_events_are_counted(local: Local) -> None:
    connect(local.world)
    controller = local.controller
    for _ in range(5000):
        controller.deny(address(1), 0x001)
        controller.allow(address(1), 0x001)
        local.provider.dispatch()
    assert controller.ev_events_dropped == 10_000 - 4096
    taken = 0
    while controller.poll_ev_event() is not None:
        taken += 1
    assert taken == 4096


def test_a_local_nic_has_no_trace_file_and_a_closed_controller_does_nothing(local: Local) -> None:
    with pytest.raises(RejectedError, match="set_trace"):
        local.controller.trace("x")
    local.controller.close()
    local.controller.close()
    for use in (local.controller.ports, local.controller.denied, local.controller.poll_ev_event):
        with pytest.raises(ClosedError):
            use()


def test_asyncio_calls_work(local: Local) -> None:
    async def run() -> None:
        number = local.controller.probe(address(1), 1)

        async def world() -> None:
            for _ in range(10):
                await asyncio.sleep(0)
                local.world.run(1 * MS)
                local.provider.dispatch()

        task = asyncio.create_task(world())
        result = await asyncio.wait_for(local.controller.next_result(number), 10)
        assert result.rtt is not None
        await task

    asyncio.run(run())


# ---- through an agent ----------------------------------------------------------------------------------------------

PROFILE = EvProfile(EvMode.GENERATED, fields=(EvField(16, 0x100, 0, 0xFFFF, 0xFF),), size=32, ev_min_active=8)


def test_every_operation_works_through_an_agent(agents: Agents, tmp_path: Path) -> None:
    nic = agents.nics[0]
    with verbs.open_controller(agents.paths[0]) as controller:
        number = controller.create_ev_profile(PROFILE)
        assert controller.ev_profiles() == {number: PROFILE}
        controller.destroy_ev_profile(number)
        assert controller.ev_profiles() == {}
        with pytest.raises(NotFoundError):
            controller.destroy_ev_profile(number)
        with pytest.raises(InvalidArgumentError):
            controller.create_ev_profile(EvProfile(EvMode.EXPLICIT))
        far = controller.destination("h2")
        assert far.evs == agents.nics[0].config.destinations[0].evs
        controller.deny(far.address, 5)
        assert [(d.peer, d.ev) for d in controller.denied()] == [(far.address, 5)]
        result = controller.ping(far.address, 0x400)
        assert (result.rtt, result.port, result.ev) == (1000, 1, 0x400)
        agents.call(lambda: setattr(nic.control, "silent", True))
        assert controller.ping(far.address, 0x400).rtt is None
        with pytest.raises(NotFoundError):
            controller.ping(far.address, 1 << 20)
        assert [p.rate_bps for p in controller.ports()] == [7, 0]
        assert not controller.ports(far.address)[0].local
        controller.trace(tmp_path / "trace")
        assert agents.call(lambda: nic.trace) is not None
        controller.trace("")
        assert agents.call(lambda: nic.trace) is None
        assert controller.ev_events_dropped == 0


def test_controllers_get_all_path_events_and_applications_their_own(agents: Agents) -> None:
    nic = agents.nics[0]
    with verbs.open(agents.paths[0]) as context, verbs.open_controller(agents.paths[0]) as controller:
        own = context.alloc_pd().create_qp(context.create_cq(4))
        inner = context.controller()
        for qpn in (own.qpn, 99_999):
            event = PathEvent(1, qpn, 5, 0, PathState.GOOD, PathState.ASSUMED_BAD, PathReason.LOSS)
            agents.call(lambda event=event: nic.events.append(event))  # type: ignore[misc]
        agents.turn()
        for each in (controller, inner):
            seen = [each.poll_ev_event(), each.poll_ev_event()]
            assert [e.qpn for e in seen if e is not None] == [own.qpn, 99_999]
        event = context.poll_event()
        assert isinstance(event, PathEvent)
        assert event.qpn == own.qpn
        assert context.poll_event() is None


def test_queue_pairs_are_modified_through_an_agent(agents: Agents) -> None:
    with verbs.open(agents.paths[0]) as context:
        qp = context.alloc_pd().create_qp(context.create_cq(4))
        remote = QpAddress(agents.nics[1].config.address, 7)
        qp.modify(QpState.INIT, cc_profile="none")
        qp.modify(QpState.RTR, remote=remote, path_mtu=1024)
        qp.modify(QpState.RTS, timeout=12, active_paths=None)
        qp.modify(QpState.ERROR)
        qp.modify(QpState.RESET)
        assert agents.nics[0].modified == [
            (qp.qpn, QpState.INIT, {"cc_profile": "none"}, None),
            (qp.qpn, QpState.RTR, {"path_mtu": 1024}, remote),
            (qp.qpn, QpState.RTS, {"timeout": 12, "active_paths": None}, None),
            (qp.qpn, QpState.ERROR, {}, None),
            (qp.qpn, QpState.RESET, {}, None),
        ]
        with pytest.raises(verbs.MrcError, match="speed"):
            qp.modify(QpState.INIT, speed=1)
        with pytest.raises(verbs.MrcError, match="timeout"):
            qp.modify(QpState.RTS, timeout="soon")


def test_a_context_offers_the_controller_on_its_connection(local: Local) -> None:
    with Context(local.provider) as context:
        assert context.controller().ping(address(1), 1).rtt is not None


# ---- CC profiles -----------------------------------------------------------------------------------------------------


def test_a_cc_profile_is_a_congestion_control_with_its_own_constants(local: Local) -> None:
    controller, nic = local.controller, local.world.nics[0]
    controller.create_cc_profile("narrow", verbs.CcProfile("fixed", window=3 * 4096))
    one = nic.create_qp(0, QpType.MRC, cq := nic.create_cq(4), cq, QpAttributes(cc_profile="narrow"))
    nic.connect_qp(one, QpAddress(address(1), 77, 0), local.world.now)
    assert nic.hw_counters(one, local.world.now)["cwnd_bytes"] == 3 * 4096
    assert controller.cc_profiles() == {"narrow": verbs.CcProfile("fixed", window=3 * 4096)}
    with pytest.raises(verbs.MrcError, match="still used"):
        controller.destroy_cc_profile("narrow")
    nic.destroy_qp(one, local.world.now)
    controller.destroy_cc_profile("narrow")
    assert controller.cc_profiles() == {}
    with pytest.raises(InvalidArgumentError, match="Unknown congestion control 'narrow'"):
        nic.create_qp(0, QpType.MRC, cq, cq, QpAttributes(cc_profile="narrow"))


def test_nscc_constants_reach_the_shared_controller() -> None:
    world = World(transport=TransportSettings(base_rtt=20_000, assumed_rate=10_000_000_000))
    nic = world.nics[0]
    nic.control.create_cc_profile("careful", verbs.CcProfile(nscc=verbs.NsccProfile(max_cwnd=20_000)))
    for number in range(2):
        qpn = nic.create_qp(0, QpType.MRC, cq := nic.create_cq(4), cq, QpAttributes(cc_profile="careful"))
        nic.connect_qp(qpn, QpAddress(address(1), number, 0), world.now)
    (peer,) = peers(nic)
    assert {key: (w.cc.cwnd, len(w.users)) for (key, _), w in peer.windows.by_key.items()} == {"careful": (20_000, 2)}


@pytest.mark.parametrize(
    ("name", "profile", "message"),
    [
        ("nscc", verbs.CcProfile("fixed"), "already"),
        ("", verbs.CcProfile("fixed"), "1 to 64 characters"),
        ("mine", verbs.CcProfile("quantum"), "Unknown congestion control 'quantum'"),
        ("mine", verbs.CcProfile("fixed", window=0), "makes no sense"),
        ("mine", verbs.CcProfile("nscc"), "set base_rtt"),
    ],
)
def test_invalid_cc_profiles_are_refused(local: Local, name: str, profile: verbs.CcProfile, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        local.controller.create_cc_profile(name, profile)
    with pytest.raises(NotFoundError):
        local.controller.destroy_cc_profile("fixed")


def test_cc_profiles_work_through_an_agent(agents: Agents) -> None:
    profile = verbs.CcProfile("nscc", verbs.NsccProfile(gamma=0.5, target_delay=9_000))
    with verbs.open_controller(agents.paths[0]) as controller:
        controller.create_cc_profile("mine", profile)
        assert controller.cc_profiles() == {"mine": profile}
        with pytest.raises(verbs.MrcError, match="gamma"):
            controller.create_cc_profile("other", verbs.CcProfile(nscc=verbs.NsccProfile(gamma=2.0)))
        controller.destroy_cc_profile("mine")
        assert controller.cc_profiles() == {}
        with pytest.raises(NotFoundError):
            controller.destroy_cc_profile("mine")
