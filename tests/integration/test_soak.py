"""Kill -9 during verified traffic, the short version of ``make soak-kill``: everybody is hit once, the owner last."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.integration import cleaning
from tests.integration.names import own
from tests.soak_kill.fabric_process import Owner
from tests.soak_kill.flow import SoakFlow
from tests.soak_kill.kill_plan import OWNER, Kill, processes
from tests.soak_kill.leftovers import Traces
from tests.soak_kill.run import Soak
from tests.waiting import until_async
from topologies.clos import multi_plane_clos
from topologies.emulation import cleanup
from topologies.emulation.run_directory import RunDirectory
from topologies.emulation.switch_kind import SwitchKind
from topologies.loader import dump_text

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

KILLS = (
    Kill(0.3, ("h2",), 0.2),
    Kill(0.5, ("switches",), 0.2),
    Kill(0.5, ("controller", "h1"), 0.0, again=0.1),
    Kill(0.5, (OWNER,), 0.1),
    Kill(0.5, ("switches",), 0.0, again=0.2),
)


def test_killing_any_process_during_traffic_is_survived(tmp_path: Path) -> None:
    fabric = multi_plane_clos(own("soak"), planes=2, t0=2, t1=1, hosts=2, rate_bps=20_000_000)
    assert {name for kill in KILLS for name in kill.victims} == {*processes(fabric, SwitchKind.EMBEDDED), OWNER}
    soak = Soak(fabric, "embedded", seed=1, folder=tmp_path, echo=print)
    try:
        verdict = asyncio.run(soak.play(iter(KILLS), seconds=600, most=len(KILLS)))
    finally:
        cleanup.clean(fabric.name, force=True)
    assert verdict.wrong == []
    assert verdict.kills.keys() == {"h1", "h2", "switches", "controller", OWNER}
    assert verdict.writes > 0


def test_a_crashed_fabric_does_not_disturb_another(tmp_path: Path) -> None:
    """Two at once by name, writes on both; one loses its owner and is cleaned up while the other goes on."""
    names = own("doomed"), own("spared")
    try:
        wrong, spared = asyncio.run(asyncio.wait_for(_two_at_once(tmp_path, *names), 120))
    finally:
        for name in names:
            cleanup.clean(name, force=True)
    assert wrong == []
    assert spared.failures == []


async def _two_at_once(folder: Path, doomed: str, spared: str) -> tuple[list[str], SoakFlow]:
    wrong: list[str] = []
    owners, flows, traffic = {}, {}, {}
    for name in (doomed, spared):
        file = folder / f"{name}.yaml"
        file.write_text(dump_text(multi_plane_clos(name, planes=1, t0=2, t1=1, hosts=2, rate_bps=20_000_000)))
        owners[name] = await Owner.start(file, "embedded")
        run = RunDirectory(name)
        flows[name] = SoakFlow(
            "h1", "h2", (str(run.host_socket("h1")), str(run.host_socket("h2"))), 1, wrong.append, print
        )
        traffic[name] = asyncio.ensure_future(flows[name].run())
    await _at_work(*flows.values())
    traces = Traces(doomed)
    traces.note()
    with cleaning.alone():
        cleanup.kill({owners[doomed].pid: lambda: True})
        await owners[doomed].ended()
        assert await asyncio.to_thread(cleanup.clean, doomed)
    assert await asyncio.to_thread(traces.left) == []
    await _at_work(flows[spared])
    for flow in flows.values():
        flow.stopping = True
    await asyncio.gather(*traffic.values())
    await owners[spared].take_down()
    assert flows[doomed].failures, "it was not hit"
    return wrong, flows[spared]


async def _at_work(*flows: SoakFlow) -> None:
    """Wait until each has finished a few writes more."""
    for flow in flows:
        enough = flow.writes + 20
        await until_async(lambda flow=flow, enough=enough: flow.writes >= enough, "more writes")  # type: ignore[misc]
