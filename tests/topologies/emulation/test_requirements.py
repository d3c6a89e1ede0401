from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from mrc_common.rtnetlink import LinkMessage
from topologies.emulation import kernel_switch, namespaces, requirements
from topologies.emulation.errors import RequirementError
from topologies.emulation.kernel_programming import SID_LINK
from topologies.emulation.route_netlink import KernelRoute

real_which = shutil.which
real_find_spec = importlib.util.find_spec


def no(tool: str) -> Callable[[str], str | None]:
    return lambda name: None if name == tool else "/usr/bin/" + name


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine on which everything is there, as far as can be asked without root."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/" + name)
    monkeypatch.setattr(requirements, "_check_mininet", lambda: None)
    monkeypatch.setattr(namespaces, "run_in_new", lambda function: None)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, b"", b""))
    return monkeypatch


def refusal(switch: str = "embedded") -> str:
    with pytest.raises(RequirementError) as raised:
        requirements.check(switch=switch)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_complete_machine_meets_all_requirements(root: pytest.MonkeyPatch) -> None:
    requirements.check()
    requirements.check(switch="bmv2")


def test_other_operating_systems_are_refused(root: pytest.MonkeyPatch) -> None:
    root.setattr(sys, "platform", "darwin")
    assert "needs Linux" in refusal()


def test_missing_root_is_reported(root: pytest.MonkeyPatch) -> None:
    root.setattr(os, "geteuid", lambda: 1000)
    assert refusal() == "Bringing up a fabric needs root: run the same command with sudo."


@pytest.mark.parametrize(
    ("tool", "package"), [("mnexec", "mininet"), ("setpriv", "util-linux"), ("nsenter", "util-linux")]
)
def test_a_missing_command_is_named_with_its_package(root: pytest.MonkeyPatch, tool: str, package: str) -> None:
    root.setattr(shutil, "which", no(tool))
    assert refusal() == f"The command {tool} is missing: run 'apt-get install {package}'."


def test_bmv2_is_required_only_when_selected(root: pytest.MonkeyPatch) -> None:
    root.setattr(shutil, "which", no("simple_switch_grpc"))
    requirements.check()
    assert "simple_switch_grpc is missing" in refusal("bmv2")


def test_missing_mininet_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/" + name)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "Python cannot find Mininet" in refusal()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(errno.EPERM, "Operation not permitted"), "start it with --privileged"),
        (RequirementError("This kernel cannot make veth links: run 'modprobe veth', or use another."), "veth"),
    ],
)
def test_a_kernel_without_namespaces_is_reported(root: pytest.MonkeyPatch, error: Exception, message: str) -> None:
    def refuse(_function: object) -> None:
        raise error

    root.setattr(namespaces, "run_in_new", refuse)
    assert message in refusal()


def test_an_old_kernel_is_reported(root: pytest.MonkeyPatch) -> None:
    def cookie() -> int:
        raise OSError(errno.ENOPROTOOPT, "Protocol not available")

    root.setattr(namespaces, "cookie", cookie)
    assert "Linux 5.14 or newer" in refusal()


def test_a_failing_mininet_helper_is_reported(root: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess(["mnexec"], 1, b"", b"set / shared: Invalid argument\n")
    root.setattr(subprocess, "run", lambda command, **_: failed)
    assert "mnexec cannot make a host's namespaces (set / shared: Invalid argument)" in refusal()


class OlderKernel:
    """The routes of a kernel that refuses those with SRv6, or leaves out the flavour, which it does not know."""

    def __init__(self, refuses: int = 0) -> None:
        self._refuses = refuses
        self._routes: list[KernelRoute] = []

    def __enter__(self) -> OlderKernel:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def links(self) -> list[LinkMessage]:
        return [LinkMessage(16, 0, index=2, name=name) for name in ("lo", SID_LINK[0])]

    def add_route(self, route: KernelRoute) -> None:
        if self._refuses:
            raise OSError(self._refuses, os.strerror(self._refuses))
        self._routes.append(replace(route, shift=None))

    def routes(self) -> list[KernelRoute]:
        return self._routes


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (OlderKernel(errno.EOPNOTSUPP), "This kernel has no SRv6 endpoints (Operation not supported): take another"),
        (OlderKernel(), "This kernel does not know SRv6's NEXT-CSID flavour, and so no uSIDs: take Linux 6.1 or newer"),
    ],
    ids=["no SRv6", "no flavours"],
)
def test_kernel_switches_are_refused_where_the_kernel_cannot_be_one(
    root: pytest.MonkeyPatch, kernel: OlderKernel, reason: str
) -> None:
    root.setattr(namespaces, "run_in_new", lambda function: function())
    root.setattr(kernel_switch, "make_sid_link", lambda: None)
    root.setattr(requirements, "RouteSocket", lambda: kernel)
    root.setattr(requirements, "_check_kernel", lambda: None)
    with pytest.raises(RequirementError) as raised:
        requirements.check(kernel_switches=True)
    assert str(raised.value).startswith(reason)
    assert str(raised.value).endswith("or leave out --switch kernel and kernel_switches.")
