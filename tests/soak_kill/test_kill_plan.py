"""Which processes a soak kills and when, from its seed."""

from itertools import islice

from tests.soak_kill.kill_plan import OWNER, kills, processes
from topologies.clos import multi_plane_clos
from topologies.emulation.switch_kind import SwitchKind

NAMES = ("h1", "h2", "switches", "controller")


def test_the_same_seed_gives_the_same_kills():
    first = list(islice(kills(7, NAMES), 100))
    assert first == list(islice(kills(7, NAMES), 100))
    assert first != list(islice(kills(8, NAMES), 100))


def test_every_process_is_killed_and_the_owner_rarely_and_alone():
    found = list(islice(kills(1, NAMES), 500))
    assert {name for kill in found for name in kill.victims} == {*NAMES, OWNER}
    assert all(kill.victims == (OWNER,) for kill in found if OWNER in kill.victims)
    assert 0 < sum(OWNER in kill.victims for kill in found) < 50
    assert any(len(kill.victims) == 2 for kill in found)
    assert any(kill.again is not None for kill in found)
    assert not any(OWNER in kill.victims for kill in islice(kills(1, NAMES, owner_share=0), 500))


def test_processes_depend_on_the_switch_kind():
    fabric = multi_plane_clos("x", planes=1, t0=1, t1=1, hosts=2)
    assert processes(fabric, SwitchKind.EMBEDDED) == ("h1", "h2", "switches", "controller")
    each = processes(fabric, SwitchKind.EMBEDDED_PER_PROCESS)
    assert each == ("h1", "h2", "switch-t0-0@p0", "switch-t1-0@p0", "controller")
