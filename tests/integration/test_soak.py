"""Kill -9 during verified traffic, the short version of ``make soak-kill``: everybody is hit once, the owner last."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from experiments.soak.plan import OWNER, Blow, processes
from experiments.soak.run import Soak
from tests.integration.names import own
from topologies.clos import multi_plane_clos
from topologies.emulation import cleanup
from topologies.emulation.switches import SwitchKind

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

BLOWS = (
    Blow(0.3, ("h2",), 0.2),
    Blow(0.5, ("switches",), 0.2),
    Blow(0.5, ("controller", "h1"), 0.0, again=0.1),
    Blow(0.5, (OWNER,), 0.1),
    Blow(0.5, ("switches",), 0.0, again=0.2),
)


def test_kill_9_of_everybody_during_traffic(tmp_path: Path) -> None:
    fabric = multi_plane_clos(own("soak"), planes=2, t0=2, t1=1, hosts=2, rate_bps=20_000_000)
    assert {name for blow in BLOWS for name in blow.victims} == {*processes(fabric, SwitchKind.SHIM), OWNER}
    soak = Soak(fabric, "shim", seed=1, folder=tmp_path, say=print)
    try:
        verdict = asyncio.run(soak.play(iter(BLOWS), seconds=600, most=len(BLOWS)))
    finally:
        cleanup.clean(fabric.name, force=True)
    assert verdict.wrong == []
    assert verdict.kills.keys() == {"h1", "h2", "switches", "controller", OWNER}
    assert verdict.writes > 0
