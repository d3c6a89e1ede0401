"""What the doctor finds on machines that lack something."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mrc_common import large_memory
from mrc_common.c_build.errors import CBuildError
from mrc_common.c_build.extension import CModule
from mrc_host import compiled
from mrc_host.libibverbs import build as verbs_library
from mrc_lab.fabric import doctor
from mrc_lab.fabric.doctor import CheckResult, Fix, apply, examine
from topologies.emulation import cleanup, halt_polling, limits, requirements, run_directory
from topologies.emulation.cleanup import CleanupReport
from topologies.emulation.errors import EmulationError, RequirementError
from topologies.emulation.run_directory import FabricState

Script = Callable[[str, str], None]


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Only the commands made with this are found."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def add(name: str, does: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / name).chmod(0o755)

    return add


def findings() -> dict[str, CheckResult]:
    return {finding.what: finding for finding in examine()}


def test_every_finding_has_a_one_line_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_directory, "existing", tuple)  # those of other tests, some of which crash
    found = list(examine())
    assert len({finding.what for finding in found}) == len(found) > 12
    for finding in found:
        assert finding.detail
        assert "\n" not in finding.detail


def test_a_missing_libibverbs_is_told_with_what_it_takes_to_build_it(
    commands: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs_library, "library", lambda: None)
    assert "There is no cc here: apt-get install gcc. Then: " in findings()["libibverbs"].detail
    commands("cc", "echo libibverbs.so")  # as compilers print what they do not find
    found = findings()["libibverbs"]
    assert (found.ok, found.fatal) == (False, False)
    assert "apt-get install libibverbs-dev. Then: " in found.detail
    assert found.detail.endswith(" -m mrc_host.libibverbs")


def test_tool_versions_are_reported(commands: Script) -> None:
    commands("cc", "echo 'cc (Debian 12.2.0-14) 12.2.0'")
    commands("simple_switch_grpc", "echo 1.15.0-abc")
    commands("p4c-bm2-ss", "echo 'Version 1.2.5 (SHA: 77)' >&2")
    commands("tshark", "exit 1")
    found = findings()
    assert found["C compiler"].detail.endswith("/cc 12.2.0-14")
    assert found["simple_switch_grpc"].detail.endswith("1.15.0-abc")
    assert found["p4c-bm2-ss"].detail.endswith(" 1.2.5")
    assert found["tshark"].ok
    assert found["tshark"].detail.endswith("/tshark")


def test_each_missing_part_is_reported_with_its_consequence(commands: Script) -> None:
    found = findings()
    assert (found["C compiler"].fatal, found["C compiler"].fix) == (True, Fix.INSTALL)
    assert "apt-get install gcc" in found["C compiler"].detail
    assert not found["simple_switch_grpc"].fatal
    assert "--switch bmv2" in found["simple_switch_grpc"].detail
    assert "make p4" in found["p4c-bm2-ss"].detail
    assert "apt-get install tshark" in found["tshark"].detail


def test_fabric_requirements_are_reported_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise RequirementError("This kernel cannot make veth links.")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "needs", lambda: (("tools", lambda: None), ("kernel", missing)))
    monkeypatch.setattr(cleanup, "orphans", tuple)
    found = findings()
    assert found["tools"].ok
    assert found["kernel"] == CheckResult("kernel", False, "This kernel cannot make veth links.", True, Fix.MODULES)


def test_without_root_kernel_checks_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = findings()
    assert "run the same command with sudo" in found["root"].detail
    for what in ("kernel", "mnexec"):
        assert found[what] == CheckResult(what, False, "cannot be tried without root", fatal=True)


@pytest.mark.parametrize(
    ("text", "ok"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 12"\nID=debian\nVERSION_ID="12"\n', True),
        ('PRETTY_NAME="Ubuntu 24.04 LTS"\nID=ubuntu\nVERSION_ID="24.04"\n', True),
        ('PRETTY_NAME="Ubuntu 20.04 LTS"\nID=ubuntu\nVERSION_ID="20.04"\n', False),
        ("PRETTY_NAME=Arch\nID=arch\n", False),
        (None, False),
    ],
)
def test_supported_and_unsupported_systems_are_recognised(text: str | None, ok: bool, tmp_path: Path) -> None:
    file = tmp_path / "os-release"
    if text is not None:
        file.write_text(text)
    finding = doctor.check_system(file)
    assert finding.ok is ok
    assert ("supported are Debian 12" in finding.detail) is not ok


def test_an_unwritable_cache_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    monkeypatch.setattr(os, "access", lambda path, mode, **_: not str(path).startswith("/proc"))
    finding = findings()["compiled switches"]
    assert not finding.ok
    assert "XDG_CACHE_HOME" in finding.detail


def test_a_cache_writable_by_others_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert findings()["compiled switches"].ok
    tmp_path.chmod(0o777)
    finding = findings()["compiled switches"]
    assert not finding.ok
    assert f"{tmp_path} is writable by everybody" in finding.detail


def test_leftovers_are_distinguished_from_running_fabrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_directory, "existing", lambda: ("mine", "old"))
    monkeypatch.setattr(
        run_directory.RunDirectory, "state", lambda self: FabricState.UP if self.name == "mine" else FabricState.DOWN
    )
    monkeypatch.setattr(run_directory.RunDirectory, "accessible", lambda self: True)
    monkeypatch.setattr(cleanup, "orphans", lambda: ("ab-t0-0p0-1",))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    finding = doctor.check_leftovers()
    assert (finding.ok, finding.fix) == (False, Fix.CLEAN)
    assert (finding.if_not, finding.detail) == ("found", "of old and 1 interfaces: run 'sudo mrc clean'")


def test_a_running_fabric_is_not_a_leftover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_directory, "existing", lambda: ("mine",))
    monkeypatch.setattr(run_directory.RunDirectory, "state", lambda self: FabricState.UP)
    monkeypatch.setattr(run_directory.RunDirectory, "accessible", lambda self: True)
    monkeypatch.setattr(cleanup, "orphans", tuple)
    assert doctor.check_leftovers() == CheckResult("leftovers", True, "none; up: mine")


def test_fabrics_of_another_user_are_not_leftovers(monkeypatch: pytest.MonkeyPatch) -> None:
    states = {"lab": FabricState.UP, "odd": FabricState.UNKNOWN}
    monkeypatch.setattr(run_directory, "existing", lambda: tuple(states))
    monkeypatch.setattr(run_directory.RunDirectory, "state", lambda self: states[self.name])
    monkeypatch.setattr(run_directory.RunDirectory, "accessible", lambda self: False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    why = "(another user's: use sudo)"
    assert doctor.check_leftovers() == CheckResult("leftovers", True, f"none; up: lab {why}; unknown: odd {why}")


def test_cleaning_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "clean_all", lambda: [CleanupReport("old", 3, 24, True)])
    assert apply(Fix.CLEAN) == "old: 3 processes, 24 interfaces"


def test_missing_kernel_modules_are_loaded(commands: Script) -> None:
    commands("modprobe", "echo $*")
    assert apply(Fix.MODULES) == "-a veth af_packet"


def test_a_failed_fix_gives_its_reason(commands: Script) -> None:
    with pytest.raises(EmulationError, match="modprobe cannot be run"):
        apply(Fix.MODULES)
    commands("modprobe", "echo 'modprobe: FATAL: Module veth not found' >&2; exit 1")
    with pytest.raises(EmulationError, match="Module veth not found"):
        apply(Fix.MODULES)


def test_without_a_checkout_packages_come_from_apt(
    commands: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "_INSTALLER", tmp_path / "missing")
    assert findings()["C compiler"].fix is None
    commands("apt-get", f'echo "$@" >>{tmp_path}/log')
    assert findings()["C compiler"].fix is Fix.INSTALL
    assert apply(Fix.INSTALL) == f"apt-get install {' '.join(doctor.DEBIAN_PACKAGES)}"
    update, install = (tmp_path / "log").read_text().splitlines()
    assert update == "update"
    assert install.split()[:3] == ["install", "-y", "--no-install-recommends"]
    commands("apt-get", '[ "$1" = update ] || { echo "E: Unable to locate package mininet" >&2; exit 100; }')
    with pytest.raises(EmulationError, match="E: Unable to locate package mininet"):
        apply(Fix.INSTALL)


def test_wheels_and_checkouts_need_the_same_packages() -> None:
    """But for those that make the checkout's environment."""
    text = (Path(doctor.__file__).parents[2] / "scripts/install").read_text()
    (listed,) = re.findall(r"^packages=\((.*)\)$", text, re.MULTILINE)
    assert set(listed.split()) - {"python3-venv"} == set(doctor.DEBIAN_PACKAGES)


def test_the_container_image_has_these_packages_too() -> None:
    stages = (Path(doctor.__file__).parents[2] / "Containerfile").read_text().split("\nFROM ")
    assert set(doctor.DEBIAN_PACKAGES) <= set(stages[-1].partition("apt-get install")[2].partition("&&")[0].split())


def test_the_python_version_is_reported() -> None:
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in findings()["Python"].detail


def test_processors_that_halt_at_once_are_named_and_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halt_polling, "GOVERNOR", tmp_path / "governor")
    monkeypatch.setattr(halt_polling, "PARAMETER", tmp_path / "parameter")
    assert doctor.check_idle_processors().ok
    (tmp_path / "governor").write_text("haltpoll\n")
    (tmp_path / "parameter").write_text("0\n")
    found = doctor.check_idle_processors()
    assert (found.ok, found.fatal, found.fix) == (False, False, Fix.POLLING)
    assert apply(Fix.POLLING) == "for 200 us, until this machine is restarted"
    found = doctor.check_idle_processors()
    assert (found.ok, found.detail) == (True, "they look for work for 200 us before they halt")


def test_a_machine_without_larger_pages_is_named_and_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = tmp_path / "enabled"
    monkeypatch.setattr(large_memory, "SETTING", setting)
    found = doctor.check_memory_pages()
    assert (found.ok, found.fix) == (True, None), "a kernel that has none cannot be fixed"
    assert "Linux 6.8" in found.detail
    setting.write_text("always inherit madvise [never]\n")
    found = doctor.check_memory_pages()
    assert (found.ok, found.fatal, found.fix) == (False, False, Fix.PAGES)
    assert apply(Fix.PAGES) == "for programs that ask for them, until this machine is restarted"
    setting.write_text("always inherit [madvise] never\n")  # what the kernel then shows
    assert doctor.check_memory_pages().ok


def test_a_setting_that_cannot_be_changed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_memory, "SETTING", tmp_path)  # a folder
    with pytest.raises(EmulationError, match=rf"^{tmp_path} cannot be changed: Is a directory\.$"):
        apply(Fix.PAGES)


def test_limits_that_cannot_be_raised_are_named_with_their_consequence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "out_of_reach", lambda: iter(["open files 1024", "net.core.rmem_max 212992"]))
    found = findings()["limits"]
    assert (found.ok, found.fatal) == (False, False)
    assert "raised here: open files 1024, net.core.rmem_max 212992; a fabric with many hosts" in found.detail
    monkeypatch.setattr(limits, "out_of_reach", lambda: iter(()))
    assert findings()["limits"] == CheckResult("limits", True, "high enough, or can be raised", if_not="low")


@pytest.mark.parametrize(
    ("available", "ok", "said"), [(True, True, "compiled from the current sources"), (False, False, "plain Python")]
)
def test_the_transport_is_compiled_or_plain(
    monkeypatch: pytest.MonkeyPatch, available: bool, ok: bool, said: str
) -> None:
    monkeypatch.setattr(compiled, "available", lambda: available)
    monkeypatch.setattr(compiled, "outdated", lambda: None)
    found = findings()["transport"]
    assert found.ok == ok
    assert said in found.detail
    assert not found.fatal


def test_modules_in_c_that_cannot_be_compiled_are_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert findings()["NIC in C"].ok

    def refuse(_: CModule) -> Path:
        raise CBuildError("the headers of Python are missing; try: apt install python3-dev")

    monkeypatch.setattr(CModule, "path", refuse)
    found = findings()["NIC in C"]
    assert (found.ok, found.fatal) == (False, True)
    assert "python3-dev" in found.detail
