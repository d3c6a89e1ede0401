"""Entropy values of fabrics with fewer paths: 128 to 256 of a queue pair, in all formats, and what names a path."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrc_host.config import EvFormat, ProtocolSettings
from mrc_host.errors import NotFoundError
from mrc_host.verbs.controller import Controller
from mrc_host.verbs_types import EvMode, EvProfile, PathState
from simulation.world import SimulatedWorld
from tests.simulation.worlds import GIGA, US, Pair
from topologies.clos import multi_plane_clos


def world(ev_format: EvFormat = EvFormat.SRV6, **sizes: int) -> SimulatedWorld:
    fabric = multi_plane_clos("few", hosts=4, t0=2, settings=ProtocolSettings(ev_format=ev_format), **sizes)
    return SimulatedWorld(fabric, seed=1, rate=100 * GIGA)


@pytest.mark.parametrize("ev_format", list(EvFormat))
@pytest.mark.parametrize(("planes", "t1"), [(1, 4), (2, 3), (8, 1)])
def test_a_queue_pair_has_128_to_256_and_uses_all_but_backups(ev_format: EvFormat, planes: int, t1: int) -> None:
    with world(ev_format, planes=planes, t1=t1) as sim:
        pair = Pair(sim)
        sim.spawn(pair.write_without_end(4))
        sim.run(200 * US)
        paths = pair.qp.paths()
        evs = [ev for path in paths for ev in path.evs]
        assert 128 <= len(set(evs)) == len(evs) <= 256
        assert len(paths) == (planes * t1 if ev_format.routed else len(evs))
        assert {path.state for path in paths} == {PathState.GOOD}
        (known,) = [peer for peer in pair.contexts[0].controller().destinations() if peer.name == "h3"]
        assert set(known.all_evs()) == set(evs)
        if ev_format.routed:
            assert all(known.all_evs()[ev] == path.ev for path in paths for ev in path.evs)
            sent = [path.sent for path in paths]
            assert max(sent) < 1.3 * min(sent)
        assert pair.qp.counters().lost == 0


def test_any_entropy_value_of_a_path_names_it() -> None:
    with world(planes=2, t1=4) as sim:
        pair = Pair(sim)
        controller: Controller = pair.contexts[0].controller()
        (known,) = [peer for peer in controller.destinations() if peer.name == "h3"]
        siblings = [ev for ev, first in known.all_evs().items() if first == known.evs[5]]
        assert len(siblings) == 32
        controller.deny(known.address, siblings[7])
        assert [path.ev for path in controller.denied()] == [known.evs[5]]
        assert [path.ev for path in pair.qp.paths() if path.state is PathState.DENIED] == [known.evs[5]]
        sim.spawn(pair.write_without_end(4))
        sim.run(100 * US)
        assert [path.ev for path in pair.qp.paths() if not path.sent] == [known.evs[5]]
        controller.allow(known.address, siblings[20])
        assert not controller.denied()
        with pytest.raises(NotFoundError):
            controller.deny(known.address, 7 << 10)


def test_profiles_may_name_any_of_them() -> None:
    with world(planes=1, t1=4) as sim:
        context = sim.open("h1")
        known = next(peer for peer in context.controller().destinations() if peer.name == "h3")
        chosen = tuple(ev for ev, first in known.all_evs().items() if first == known.evs[2])[:3]
        number = context.controller().create_ev_profile(EvProfile(EvMode.EXPLICIT, chosen))
        pair = Pair(sim, attributes=replace(sim.attributes(), ev_profile=number))
        sim.spawn(pair.write_without_end(2))
        sim.run(50 * US)
        (path,) = pair.qp.paths()
        assert (path.ev, set(path.evs)) == (known.evs[2], set(chosen))
        assert path.sent > 100
