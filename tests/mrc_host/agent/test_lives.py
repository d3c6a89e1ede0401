"""Lives of a queue pair through the agent's socket: what one was given says nothing of the next.

A client gives a queue pair random attributes in several lives, and a new one only those of the last life.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest

from mrc_host import verbs
from mrc_host.transport.states import TAKES
from mrc_host.verbs.remote.connection import AgentConnection
from mrc_host.verbs_types import CompletionStatus, QpAddress, QpAttributes, QpInfo, QpState, QpType
from mrc_host.wire.psn import MASK
from tests.mrc_host.nics_in_memory import nics_in_thread
from tests.seeds import SEED

CHOICES: dict[str, tuple[Any, ...]] = {
    "path_mtu": (256, 512, 1024, 4096),
    "mpr": (1, 5, 255),
    "mpr_dest": (1, 8, 200),
    "max_wimm": (1, 128, 32767),
    "max_wimm_dest": (1, 64, 128),
    "timeout": (1, 9, 24),
    "retry_count": (0, 3, 255),
    "linear_retries": (None, 0, 255),
    "congestion_window": (None, 4096, 1 << 20),
    "active_paths": (None, 1, 7),
    "send_psn": (0, 77, 0xFFFFFF),
    "receive_psn": (0,),  # the choice of `_live`
    "ev_profile": (0, 1),
    "cc_profile": ("", "none", "fixed"),
    "dynamic_mpr": (0, 255),
    "trim_nack": (True, False),
    "trim_nack_dest": (True, False),
    "num_qps_per_peer": (0, 9),
    "num_send_peers": (0, 65535),
    "num_remote_recv_peers": (0, 63),
    "udp_sport": (0, 50_000),
    "planes": (1, 3, 0xFFFFFFFF),
    "remote_write": (True, False),
}


@pytest.mark.parametrize("kind", QpType)
def test_a_queue_pair_of_a_client_forgets_earlier_lives(tmp_path: Path, kind: QpType) -> None:
    assert set(CHOICES) == {field.name for field in dataclasses.fields(QpAttributes)}
    print("seed", SEED)
    chance = random.Random(SEED)
    with (
        nics_in_thread(tmp_path, 2) as hosts,
        verbs.open(hosts.paths[0]) as ctx,
        verbs.open(hosts.paths[1]) as far,
        verbs.open_controller(hosts.paths[0]) as controller,
        contextlib.closing(AgentConnection(hosts.paths[0])) as agent,
    ):
        assert controller.create_ev_profile(verbs.EvProfile()) == 1
        cq, pd = ctx.create_cq(), ctx.alloc_pd()
        peer = far.alloc_pd().create_qp(far.create_cq(), qp_type=kind).address
        created = QpAttributes(**_some(chance, without=("send_psn", "receive_psn")))
        for _ in range(10):
            qp, fresh = (pd.create_qp(cq, qp_type=kind, attributes=created) for _ in range(2))
            for number in range(3):
                _live(qp, peer, _some(chance), chance.randrange(4), number)
                qp.modify(QpState.RESET)
                assert _alike(qp.query()) == _alike(fresh.query())
                assert [one.remote for one in agent.qps() if one.qpn == qp.qpn] == [""]
            last = _some(chance)
            last.setdefault("receive_psn", 5)
            for each in (qp, fresh):
                _live(each, peer, last, 3, 3)
            assert _alike(qp.query(), "send_psn" not in last) == _alike(fresh.query(), "send_psn" not in last)
            qp.close()
            fresh.close()


def _some(chance: random.Random, without: tuple[str, ...] = ()) -> dict[str, Any]:
    names = [name for name in CHOICES if name not in without and chance.random() < 0.5]
    return {name: chance.choice(CHOICES[name]) for name in names}


def _live(qp: verbs.QueuePair, peer: QpAddress, given: dict[str, Any], steps: int, number: int) -> None:
    """Some steps of a life; the peer's first PSN is that of its endpoint, or one far from those of other lives."""
    remote = peer
    if "receive_psn" in given:
        assert peer.psn is not None
        given = {**given, "receive_psn": peer.psn + (1 + number << 20) & MASK}
        remote = dataclasses.replace(peer, psn=None)
    for state in (QpState.INIT, QpState.RTR, QpState.RTS)[:steps]:
        changes = {name: value for name, value in given.items() if name in TAKES[state]}
        qp.modify(state, remote=remote if state is QpState.RTR else None, **changes)


def _alike(info: QpInfo, chosen: bool = True) -> QpInfo:
    """Without the first PSN that the NIC has `chosen`, each time another."""
    return dataclasses.replace(info, attributes=dataclasses.replace(info.attributes, send_psn=None)) if chosen else info


def test_a_client_forbids_and_allows_writes_of_its_peer(tmp_path: Path) -> None:
    with nics_in_thread(tmp_path, 2) as hosts, verbs.open(hosts.paths[0]) as ctx, verbs.open(hosts.paths[1]) as far:
        cq, pd, far_cq, far_pd = ctx.create_cq(), ctx.alloc_pd(), far.create_cq(), far.alloc_pd()
        region, target = pd.alloc_mr(4096), far_pd.alloc_mr(4096)
        region.buffer[:] = b"x" * 4096
        qp, far_qp = pd.create_qp(cq), far_pd.create_qp(far_cq)
        qp.connect(far_qp.address)
        far_qp.connect(qp.address)
        for allowed in (False, True, False):
            far_qp.modify(QpState.RTS, remote_write=allowed)
            assert far_qp.query().attributes.remote_write == allowed
            if allowed:
                qp.write(region, target.remote)
                assert cq.wait(10).status is CompletionStatus.SUCCESS
                target.buffer[:] = bytes(4096)
        qp.write(region, target.remote)
        assert cq.wait(10).status is CompletionStatus.REMOTE_INVALID_REQUEST_ERROR
        assert not any(target.buffer)
