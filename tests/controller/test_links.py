"""Links of a fabric that is not on this machine; those of one that is are tested where fabrics are brought up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from pyroute2.netlink.exceptions import NetlinkError

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


@pytest.mark.parametrize("error", [NetlinkError(19, "No such device"), OSError(3, "No such process")])
def test_an_interface_removed_meanwhile_is_reported(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def shape(*_: Any) -> None:
        raise error

    async def scenario() -> None:
        links = FabricLinks(FABRIC, no_delays)
        with pytest.raises(ControllerError, match="on this machine: No such"):
            await links.shape({})
        await links.close()

    monkeypatch.setattr("controller.shaping.shape", shape)
    asyncio.run(scenario())
