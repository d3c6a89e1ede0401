"""Building, booting and testing the virtual machine with stand-ins for mmdebstrap, QEMU and ssh.

Seen for real: `make vm && make vm-test` (docs/virtual-machine.md has sizes and times).
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Prints its words, and runs until it is ended or `stop` is there.
QEMU = """
echo "$@" >{folder}/qemu
trap 'echo ended >>{folder}/qemu; exit' TERM
while [ ! -e {folder}/stop ]; do sleep 0.05; done
"""
# Runs the last word here, but for what only the machine has.
SSH = """
for last; do :; done
echo "$last" >>{folder}/ssh
case $last in
  true) [ -e {folder}/qemu ] ;;
  tar*) cat >/dev/null ;;
  *pytest*) echo 1 failed; exit 1 ;;
  *uname*) echo 6.1.0-99-amd64 ;;
  *junit*) echo "<testsuites/>" ;;
esac
"""


class Machine:
    """A folder as build-vm.sh leaves it, and commands that stand in for QEMU and ssh."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vm = folder / "vm"
        self.vm.mkdir()
        for file in ("disk.qcow2", "kernel", "initrd", "ssh_key"):
            (self.vm / file).write_text(file)
        self.commands = folder / "commands"
        self.commands.mkdir()
        for name in ("qemu-system-x86_64", "qemu-system-aarch64"):
            self.has(name, QEMU)
        self.has("ssh", SSH)

    def has(self, command: str, does: str) -> None:
        path = self.commands / command
        path.write_text("#!/bin/sh\n" + does.replace("{folder}", str(self.folder)))
        path.chmod(0o755)

    def run(self, script: str, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [ROOT / "vagrant" / script, *words],
            env={"PATH": f"{self.commands}:{os.environ['PATH']}", **environment},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def said(self, file: str) -> str:
        return (self.folder / file).read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_ssh_and_the_web_page_are_forwarded_from_loopback_only(machine: Machine) -> None:
    (machine.folder / "stop").touch()
    done = machine.run("run-vm.sh", machine.vm, "-vga", "none", MRC_VM_SSH_PORT="2200", MRC_CPUS="3")
    assert done.returncode == 0, done.stderr
    words = machine.said("qemu")
    assert "hostfwd=tcp:127.0.0.1:2200-:22,hostfwd=tcp:127.0.0.1:8080-:8080" in words
    assert "-smp 3 -m 4096" in words
    assert words.endswith("-vga none\n")
    assert "-snapshot" not in words
    fast = os.access("/dev/kvm", os.W_OK)
    assert ("-accel kvm" in words, "virtual machine will be slow" in done.stderr) == (fast, not fast)
    slow = machine.run("run-vm.sh", machine.vm, MRC_VM_KVM="no")
    assert "virtual machine will be slow" in slow.stderr
    assert "-accel tcg" in machine.said("qemu")


def test_without_a_machine_or_qemu_it_says_what_to_do(machine: Machine) -> None:
    for name in ("qemu-system-x86_64", "qemu-system-aarch64"):
        (machine.commands / name).unlink()
    system = "/usr/bin:/bin"
    if not any(Path(folder, "qemu-system-x86_64").exists() for folder in system.split(":")):
        done = machine.run("run-vm.sh", machine.vm, PATH=f"{machine.commands}:{system}")
        assert done.returncode == 1
        assert "is missing: vagrant/install-vm-tools installs it" in done.stderr
    (machine.vm / "disk.qcow2").unlink()
    done = machine.run("run-vm.sh", machine.vm)
    assert (done.returncode, done.stderr) == (
        1,
        f"There is no virtual machine in {machine.vm}: build it with 'sudo make vm'.\n",
    )


def test_two_do_not_run_the_same_disk(machine: Machine) -> None:
    with (machine.vm / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = machine.run("run-vm.sh", machine.vm)
    assert done.returncode == 1
    assert done.stderr.startswith("Another process builds or runs the virtual machine")


def test_the_tests_status_and_results_come_back_and_the_machine_ends(machine: Machine) -> None:
    results = machine.folder / "results"
    done = machine.run("test-vm.sh", machine.vm, results, "tests/integration/test_agent.py", "-k", "a b")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "-snapshot" in machine.said("qemu")
    assert machine.said("qemu").endswith("ended\n")
    assert (results / "pytest.log").read_text() == "1 failed\n"
    assert (results / "junit.xml").read_text() == "<testsuites/>\n"
    assert (results / "machine.txt").read_text() == "6.1.0-99-amd64\n"
    *earlier, command = [line for line in machine.said("ssh").splitlines() if "python -m" in line]
    assert command.endswith(r"tests/integration/test_agent.py -k a\ b")
    assert [line.split()[-1] for line in earlier] == ["scripts.compile_transport"]


def test_a_machine_that_does_not_boot_is_reported_with_its_last_words(machine: Machine) -> None:
    for name in ("qemu-system-x86_64", "qemu-system-aarch64"):
        machine.has(name, "echo qemu: could not open disk; exit 1")
    machine.has("ssh", "exit 255")
    done = machine.run("test-vm.sh", machine.vm, machine.folder / "results")
    assert done.returncode == 1
    assert "qemu: could not open disk" in done.stderr
    missing = machine.run("test-vm.sh", machine.folder / "nowhere", machine.folder / "results")
    assert missing.stderr.endswith("build the machine with 'sudo make vm'.\n")


@pytest.mark.skipif(not os.access("/dev/kvm", os.W_OK), reason="this machine has no KVM")
def test_a_machine_that_hangs_with_kvm_is_booted_without(machine: Machine) -> None:
    hangs = machine.folder / "hangs"
    hangs.touch()
    for name in ("qemu-system-x86_64", "qemu-system-aarch64"):
        machine.has(name, 'case "$*" in *kvm*) ;; *) rm -f {folder}/hangs ;; esac\n' + QEMU)
    machine.has("ssh", "[ ! -e {folder}/hangs ] || exit 255\n" + SSH)
    done = machine.run("test-vm.sh", machine.vm, machine.folder / "results", MRC_VM_KVM_SECONDS="1")
    assert "It did not boot within 1 s.\nOnce more, without KVM, which is slow.\n" in done.stderr
    assert (machine.folder / "results" / "pytest.log").read_text() == "1 failed\n"


@pytest.mark.root
def test_a_build_that_fails_leaves_the_earlier_machine(machine: Machine) -> None:
    machine.has("mmdebstrap", "echo E: cannot reach the mirror; exit 1")
    for not_reached in ("qemu-img", "mke2fs", "sfdisk", "ssh-keygen", "git", "grub-mkimage"):
        machine.has(not_reached, "exit 1")
    done = machine.run("build-vm.sh", machine.vm, MRC_VM_MIRROR="http://mirror.example")
    assert done.returncode == 1
    assert (
        "E: cannot reach the mirror\nmmdebstrap could not make the root file system from http://mirror" in done.stderr
    )
    left = {path.name for path in machine.vm.iterdir()}
    assert left == {"disk.qcow2", "kernel", "initrd", "ssh_key", "lock"}
    assert (machine.vm / "disk.qcow2").read_text() == "disk.qcow2"
