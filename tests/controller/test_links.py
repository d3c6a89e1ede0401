"""Links of a fabric that is not on this machine; those of one that is are tested where fabrics are brought up."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from controller.errors import ControllerError
from controller.links import FabricLinks
from topologies.clos import multi_plane_clos
from topologies.fabric import LinkEnd

FABRIC = multi_plane_clos("nowhere", planes=1, t0=1, t1=0, hosts=2)


async def no_delays(delays: Mapping[LinkEnd, int]) -> None:
    assert not any(delays.values())


def test_changing_a_missing_link_is_an_error_unless_absent_ok() -> None:
    async def scenario() -> None:
        links = FabricLinks(FABRIC, no_delays)
        await links.set_up(FABRIC.links, up=True, absent_ok=True)
        for up in (True, False):
            with pytest.raises(ControllerError, match="does not exist on this machine: is the fabric still up"):
                await links.set_up(FABRIC.links, up=up)
        await links.close()

    asyncio.run(scenario())


def test_a_host_that_ends_meanwhile_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def shape(*_: Any) -> None:
        raise OSError(3, "No such process")

    async def scenario() -> None:
        links = FabricLinks(FABRIC, no_delays)
        with pytest.raises(ControllerError, match="on this machine: No such process"):
            await links.shape({})
        await links.close()

    monkeypatch.setattr("controller.shaping.shape", shape)
    asyncio.run(scenario())


def test_the_first_link_change_needs_nothing_that_takes_long_to_import() -> None:
    """It is a fault's, whose time has come."""
    program = (
        "import asyncio, sys\n"
        "from tests.controller.test_links import FABRIC, FabricLinks, no_delays\n"
        "links = FabricLinks(FABRIC, no_delays)\n"
        "asyncio.run(links.set_up(FABRIC.links, up=False, absent_ok=True))\n"
        "assert 'pyroute2' not in sys.modules\n"
        "links.prepare_shaping()\n"
        "asyncio.run(links.close())\n"
        "assert 'pyroute2' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=True)
