"""Provisioning with stand-ins for apt, curl, gpg and make, in a mount namespace whose apt folders are empty."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROVISION = ROOT / "vagrant/provision.sh"
BOXED = """
mount -t tmpfs none /usr/share/keyrings
mount -t tmpfs none /etc/apt/sources.list.d
mount --bind {system} /etc/os-release
{provision} {project} || exit
cat /etc/apt/sources.list.d/* /usr/share/keyrings/* 2>/dev/null || true
"""

pytestmark = pytest.mark.root


class Machine:
    """A project folder, commands that stand in for the system's, and a log of those that were run."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.log.touch()
        self.commands = folder / "commands"
        self.commands.mkdir()
        self.project = folder / "project"
        (self.project / ".venv/bin").mkdir(parents=True)
        (self.project / "Makefile").touch()
        self.system = folder / "os-release"
        self.system.write_text('ID=debian\nVERSION_ID="12"\n')
        self.logs("apt-get")
        self.logs("make")
        self.has("dpkg-query", "exit 1")
        self.has("curl", 'while [ "$1" != -o ]; do shift; done; echo the key >"$2"')
        self.has("gpg", 'while [ "$1" != -o ]; do shift; done; cp "$3" "$2"')
        self._script(self.project / ".venv/bin/mrc", "echo doctor")

    def has(self, command: str, does: str) -> None:
        """Put a shell script where `command` is looked up."""
        self._script(self.commands / command, does)

    def logs(self, command: str, then: str = "") -> None:
        self.has(command, f'echo {command} "$@" >>{self.log}; {then}')

    def provision(self, **environment: str) -> subprocess.CompletedProcess[str]:
        inside = BOXED.format(system=self.system, provision=PROVISION, project=self.project)
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", inside],
            env={"PATH": f"{self.commands}:{os.environ['PATH']}", **environment},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def did(self) -> list[str]:
        return self.log.read_text().splitlines()

    def _script(self, path: Path, does: str) -> None:
        path.write_text(f"#!/bin/sh\n{does}\n")
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_it_runs_the_projects_make_targets_and_then_the_doctor(machine: Machine) -> None:
    result = machine.provision()
    assert result.returncode == 0, result.stderr
    assert f"make -C {machine.project} install" in machine.did()
    assert "doctor" in result.stdout


@pytest.mark.parametrize(
    ("system", "distribution"),
    [
        ('ID=debian\nVERSION_ID="12"\n', "Debian_12"),
        ('ID=ubuntu\nVERSION_ID="22.04"\n', "xUbuntu_22.04"),
    ],
)
def test_bmv2_is_installed_from_its_publishers_repository(machine: Machine, system: str, distribution: str) -> None:
    machine.system.write_text(system)
    result = machine.provision()
    address = f"https://download.opensuse.org/repositories/home:/p4lang/{distribution}"
    assert f"deb [signed-by=/usr/share/keyrings/p4lang.gpg] {address}/ /\nthe key\n" in result.stdout
    assert "BMv2 and p4c are installed" in result.stdout
    assert "apt-get install -y -qq --no-install-recommends p4lang-bmv2 p4lang-p4c" in machine.did()


def test_the_bmv2_repository_is_configurable(machine: Machine) -> None:
    assert (
        "] http://mirror.example/%/Debian_12/ /"
        in machine.provision(P4_REPOSITORY="http://mirror.example/%%/%s").stdout
    )


def without_bmv2(machine: Machine, **environment: str) -> str:
    """The message that says why there is no BMv2; provisioning went on and left nothing of it."""
    result = machine.provision(**environment)
    assert result.returncode == 0, result.stderr
    assert "signed-by" not in result.stdout
    assert "the key\n" not in result.stdout
    assert "doctor" in result.stdout
    (expected_message,) = [line for line in result.stdout.splitlines() if "BMv2" in line]
    assert expected_message.endswith("the embedded switch runs the same compiled P4 program.")
    return expected_message


def test_a_distribution_without_bmv2_packages_is_reported(machine: Machine) -> None:
    machine.has("curl", "exit 22")
    assert "has no packages for Debian_12, or cannot be reached" in without_bmv2(machine)


def test_an_invalid_repository_key_is_reported(machine: Machine) -> None:
    machine.has("gpg", "exit 2")
    assert "is invalid" in without_bmv2(machine)


def test_packages_that_fail_to_install_are_reported(machine: Machine) -> None:
    machine.logs("apt-get", 'case "$*" in *p4lang*) exit 100 ;; esac')
    assert "p4lang-bmv2 p4lang-p4c cannot be installed from" in without_bmv2(machine)
    assert machine.did().count("apt-get update -qq") == 3  # the last without the repository


def test_repeated_it_takes_no_network(machine: Machine) -> None:
    machine.has("dpkg-query", "echo 'ii '")
    for command in ("apt-get", "curl"):
        machine.logs(command, "exit 1")
    result = machine.provision()
    assert result.returncode == 0, result.stderr
    assert machine.did() == [f"make -C {machine.project} install"]
    assert "doctor" in result.stdout


def test_bmv2_can_be_left_out(machine: Machine) -> None:
    machine.has("curl", "exit 1")
    assert "(as asked)" in without_bmv2(machine, P4_REPOSITORY="none")


def test_a_missing_project_folder_is_reported(machine: Machine) -> None:
    (machine.project / "Makefile").unlink()
    result = machine.provision()
    assert result.returncode == 1
    assert result.stderr == f"{machine.project} is not the project's folder: it has no Makefile.\n"


def test_provisioning_without_root_is_refused(tmp_path: Path) -> None:
    result = subprocess.run(
        ["setpriv", "--reuid=65534", "--clear-groups", "bash", "-s", str(tmp_path)],
        input=PROVISION.read_text(), capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (1, "provision.sh needs root: run it with sudo.\n")
