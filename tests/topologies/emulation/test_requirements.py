from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from topologies.emulation import namespaces, requirements
from topologies.emulation.errors import RequirementError

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
