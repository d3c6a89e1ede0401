"""Queueing disciplines of real interfaces: added, changed, removed, or refused with a message."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from controller.errors import ControllerError
from controller.shaping import shape
from topologies.addressing import interface_name
from topologies.clos import multi_plane_clos
from topologies.emulation import interfaces
from topologies.fabric import LinkEnd
from topologies.faults.effect import PortShaping

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="interfaces need root")]

RATE = 50_000_000
FABRIC = multi_plane_clos(f"shape{os.getpid() % 10000}", planes=1, t0=1, t1=1, hosts=1, rate_bps=RATE)
END = LinkEnd("t0-0@p0", 1)
NAME = interface_name(FABRIC, END)


@pytest.fixture
def netlink() -> Iterator[IPRoute]:
    subprocess.run(["ip", "link", "add", "name", NAME, "type", "veth", "peer", "name", f"{NAME}x"], check=True)
    try:
        for name in (NAME, f"{NAME}x"):
            subprocess.run(["ip", "link", "set", name, "up"], check=True)
        with IPRoute() as opened:
            yield opened
    finally:
        subprocess.run(["ip", "link", "del", NAME], check=True)


def discipline() -> dict[str, Any]:
    command = ["tc", "-j", "qdisc", "show", "dev", NAME]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)[0]
    return {key: found[key] for key in ("kind", "handle")} | found.get("options", {})


@pytest.mark.usefixtures("netlink")
def test_a_rate_adds_a_token_bucket_that_is_removed_without_trace() -> None:
    before = discipline()
    shape(FABRIC, {END: PortShaping(2_000_000)})
    assert (discipline()["kind"], discipline()["handle"], discipline()["rate"]) == ("tbf", "fa:", 250_000)
    shape(FABRIC, {END: PortShaping(1_000_000)})
    assert discipline()["rate"] == 125_000
    shape(FABRIC, {END: PortShaping(10 * RATE)})
    assert discipline()["rate"] == RATE // 8, "a line is never faster than it was made"
    shape(FABRIC, {END: None})
    assert discipline() == before
    shape(FABRIC, {END: None})
    assert discipline() == before


def test_a_bmv2_port_gets_another_rate_and_then_its_own_again(netlink: IPRoute) -> None:
    interfaces.shape(netlink, NAME, RATE, FABRIC.mtu)
    before = discipline()
    shape(FABRIC, {END: PortShaping(2_000_000)})
    assert discipline() != before
    assert (discipline()["rate"], discipline()["handle"]) == (250_000, before["handle"])
    shape(FABRIC, {END: None})
    assert discipline() == before


@pytest.mark.usefixtures("netlink")
def test_a_delay_is_none_of_the_kernels() -> None:
    before = discipline()
    shape(FABRIC, {END: PortShaping(delay=5_000_000)})
    assert discipline() == before
    shape(FABRIC, {END: PortShaping(2_000_000, delay=5_000_000)})
    assert discipline()["rate"] == 250_000
    shape(FABRIC, {END: PortShaping(delay=5_000_000)})
    assert discipline() == before


def test_a_missing_interface_or_host_is_named() -> None:
    shape(FABRIC, {END: None, LinkEnd("h1", 0): None})
    with pytest.raises(ControllerError, match=f"Interface {NAME} does not exist on this machine"):
        shape(FABRIC, {END: PortShaping(1_000_000)})
    with pytest.raises(ControllerError, match="h1 is not on this machine: is the fabric still up"):
        shape(FABRIC, {LinkEnd("h1", 0): PortShaping(1_000_000)})


def test_an_interface_removed_meanwhile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> None:
        raise NetlinkError(19, "No such device")

    monkeypatch.setattr("controller.shaping._shape_one", gone)
    with pytest.raises(ControllerError, match=f"Interface {NAME} cannot be shaped: No such device"):
        shape(FABRIC, {END: PortShaping(1_000_000)})
