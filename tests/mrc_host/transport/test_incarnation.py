"""A queue pair with earlier lives behaves like one that is new.

Two worlds are alike, with two connections each. In one of them the first connection has lives with random attributes,
is reset, and has one more life. In the other one the second connection has those lives, so the last life is the first
one of its queue pairs. From its first step on both worlds must send the same frames at the same times, complete the
same requests, and report the same attributes, counters and gauges.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.config import TransportSettings
from mrc_host.counters import Level, at_level
from mrc_host.transport.states import TAKES
from mrc_host.verbs_types import ALL_PLANES, EvMode, EvProfile, QpAttributes, QpState, QpType
from mrc_host.wire.psn import HALF, MASK
from tests.mrc_host.nic_world import ALL_RIGHTS, MS, US, End, World

SIZE = 1 << 14
GAUGES = [info.name for info in at_level(Level.QP) if info.gauge]
PROFILE = 1
VALUES: Mapping[str, tuple[Any, ...]] = {
    "path_mtu": (256, 1024, 4096),
    "mpr": (1, 8, 255),
    "mpr_dest": (1, 2, 8),
    "max_wimm": (1, 4, 128),
    "max_wimm_dest": (1, 3, 128),
    "timeout": (3, 8, 14),
    "retry_count": (0, 2, 7, 255),
    "linear_retries": (None, 0, 3),
    "congestion_window": (None, 300, 4096, 65536),
    "active_paths": (None, 1, 3),
    "send_psn": (None, HALF),  # relative to the NIC's own choice
    "receive_psn": (None, HALF),
    "ev_profile": (0, PROFILE),
    "cc_profile": ("", "none", "fixed"),
    "dynamic_mpr": (0, 4, 255),
    "trim_nack": (False, True),
    "trim_nack_dest": (False, True),
    "num_qps_per_peer": (0, 3),
    "num_send_peers": (0, 2),
    "num_remote_recv_peers": (0, 40),
    "udp_sport": (0, 50_000),
    "planes": (1, 2, 3, ALL_PLANES),
    "remote_write": (True, True, True, False),
}
RC_PROFILES = ("", "none", "fixed", "dcqcn")


@dataclass(frozen=True)
class Writes:
    """What a life posts at one end: so many writes of a length, every second one with immediate."""

    count: int
    length: int


@dataclass(frozen=True)
class LifePlan:
    """Attributes of both ends, what they post, and how long (ns) it is until both are reset."""

    given: tuple[Mapping[str, Any], Mapping[str, Any]]
    posted: tuple[Writes, Writes]
    duration: int


def attributes(kind: QpType) -> st.SearchStrategy[dict[str, Any]]:
    """Some attributes, each with one of its values."""
    choices = dict(VALUES)
    if kind is QpType.RC:
        choices |= {"cc_profile": RC_PROFILES, "ev_profile": (0,)}
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in choices.items()})


def lives(kind: QpType) -> st.SearchStrategy[LifePlan]:
    writes = st.builds(Writes, st.integers(0, 6), st.sampled_from((0, 100, 5000, SIZE)))
    return st.builds(
        LifePlan,
        st.tuples(attributes(kind), attributes(kind)),
        st.tuples(writes, writes),
        st.sampled_from((0, 5 * US, 60 * US, 5 * MS)),
    )


def test_every_attribute_is_drawn_and_belongs_to_a_step() -> None:
    names = {field.name for field in dataclasses.fields(QpAttributes)}
    assert set(VALUES) == names
    assert {name for names in TAKES.values() for name in names} == names


@pytest.mark.either_transport
@pytest.mark.parametrize("base_rtt", [0, 20 * US], ids=["fixed window", "shared window"])
@pytest.mark.parametrize("kind", QpType)
@given(data=st.data())
def test_a_queue_pair_with_earlier_lives_behaves_like_a_new_one(kind: QpType, base_rtt: int, data: Any) -> None:
    created = data.draw(attributes(kind).map(lambda a: {k: v for k, v in a.items() if not k.endswith("_psn")}))
    earlier = data.draw(st.lists(lives(kind), min_size=1, max_size=3))
    last = data.draw(lives(kind))
    old, new = (Story(kind, base_rtt, created, number) for number in (0, 1))
    for life in earlier:
        for story in (old, new):
            story.play(life, story.earlier)
            story.reset_earlier()
    new.choose(old.chosen())
    assert old.play(last, old.last) == new.play(last, new.last)


def contents(number: int) -> bytes:
    """What the memory at NIC `number` holds before each life."""
    return random.Random(number).randbytes(SIZE)


class Story:
    """A world in which connection `number` has the earlier lives, and the first one has the last life."""

    def __init__(self, kind: QpType, base_rtt: int, created: Mapping[str, Any], number: int) -> None:
        self.world = World(2, 2, 2, transport=TransportSettings(base_rtt=base_rtt, packet_lifetime=100 * MS))
        for nic in self.world.nics:
            profile = EvProfile(EvMode.EXPLICIT, evs=nic.control.destinations()[0].evs[::3])
            nic.control.add_ev_profile(PROFILE, profile)
        connections = [(self._end(0, kind, created), self._end(1, kind, created)) for _ in range(2)]
        self.last, self.earlier = connections[0], connections[number]

    def _end(self, number: int, kind: QpType, created: Mapping[str, Any]) -> End:
        nic, buffer = self.world.nics[number], bytearray(contents(number))
        region = nic.register_memory(0, memoryview(buffer), ALL_RIGHTS)
        cq = nic.create_cq(4096)
        return End(self.world, number, nic.create_qp(0, kind, cq, cq, QpAttributes(**created)), cq, buffer, region)

    def reset_earlier(self) -> None:
        """Reset both ends, and wait until nothing of this life is under way or remembered but by the queue pairs."""
        for end in self.earlier:
            end.nic.modify_qp(end.qpn, QpState.RESET, self.world.now)
            end.buffer[:] = contents(end.number)
            end.poll()
            end.done.clear()
            end.next_id = 1
        self.world.run(200 * MS)

    def chosen(self) -> list[int]:
        """The first PSNs that the NICs have chosen for the last life."""
        return [end.qp.life.own_psn for end in self.last]

    def choose(self, psns: list[int]) -> None:
        """Let these be the ones: no verb chooses for the NIC."""
        for end, psn in zip(self.last, psns, strict=True):
            end.qp.life = dataclasses.replace(end.qp.life, own_psn=psn)

    def play(self, life: LifePlan, ends: tuple[End, End]) -> list[Any]:
        """Connect, post and run; everything that can be seen of that."""
        world = self.world
        for nic in world.nics:  # how often numbers were drawn is not a queue pair's own
            nic._context.rng.seed(5)
        frames: list[tuple[int, int, int, bytes]] = []

        def tap(nic: int, port: int, to: int, frame: bytes, now: int) -> bytes:
            frames.append((now, nic, port, frame))
            return frame

        world.tap, start = tap, world.now
        before = [dict(end.nic.hw_counters(end.qpn, start)) for end in ends]
        for end, far in (ends, ends[::-1]):
            self._connect(end, far, life.given[end.number], life.given[far.number])
        for end, far in (ends, ends[::-1]):
            posted = life.posted[end.number]
            for number in range(posted.count):
                end.write(far, posted.length, imm=number if number % 2 else None)
        world.run(life.duration)
        for end in ends:
            end.poll()
        return [frames, [self._report(end, old) for end, old in zip(ends, before, strict=True)]]

    def _connect(self, end: End, far: End, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
        """Step by step; both ends have one path MTU, and each expects the first PSN that the other sends."""
        nic, now = end.nic, self.world.now
        remote = far.nic.qp_address(far.qpn)
        changes = dict(mine)
        for name, number in (("send_psn", nic.qp_address(end.qpn).psn), ("receive_psn", remote.psn)):
            assert number is not None
            if changes.get(name) is not None:
                changes[name] = (number + HALF) & MASK
        if theirs.get("send_psn") is not None:
            remote = dataclasses.replace(remote, psn=None)
            changes["receive_psn"] = (far.nic.qp_address(far.qpn).psn or 0) + HALF & MASK
        else:
            changes.pop("receive_psn", None)
        for state in (QpState.INIT, QpState.RTR, QpState.RTS):
            taken = {name: value for name, value in changes.items() if name in TAKES[state]}
            nic.modify_qp(end.qpn, state, now, taken, remote=remote if state is QpState.RTR else None)

    def _report(self, end: End, before: Mapping[str, int]) -> list[Any]:
        nic, now = end.nic, self.world.now
        counters = dict(nic.hw_counters(end.qpn, now))
        counted = {name: value if name in GAUGES else value - before[name] for name, value in counters.items()}
        done = [(c.wr_id, c.opcode, c.status, c.byte_len, c.imm, c.reason) for c in end.done]
        return [nic.query_qp(end.qpn), counted, done, nic.qp_paths(end.qpn)]
