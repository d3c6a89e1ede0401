"""The installer on machines that are not this one: a copy in an empty folder, stand-ins for the commands it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SYSTEMS = {
    "bookworm": 'ID=debian\nVERSION_ID="12"\nNAME="Debian GNU/Linux"\n',
    "jammy": 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\n',
    "noble": 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n',
    "ubuntu-26.04": 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="26.04"\n',
}
UNSUPPORTED = {
    "bullseye": 'ID=debian\nVERSION_ID="11"\n',
    "focal": 'ID=ubuntu\nVERSION_ID="20.04"\n',
    "fedora": "ID=fedora\nVERSION_ID=41\n",
    "rolling": "ID=arch\n",
    "unstable": "ID=debian\n",
    "empty": "",
}


COMPILE = "python -I mrc_common/run_module.py scripts.compile_transport"
BUILD_VERBS = "python -I mrc_common/run_module.py mrc_host.libibverbs"


class Machine:
    """A folder with the installer in it, commands that stand in for the system's, and a log of those that were run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.log.touch()
        self.commands = folder / "commands"
        self.commands.mkdir()
        (folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/install", folder / "scripts/install")
        (folder / "pyproject.toml").write_text("[project]\n")
        (folder / "requirements").mkdir()
        for kind in ("runtime", "dev"):
            (folder / f"requirements/{kind}.txt").write_text(f"of {kind}\n")
        self.system("bookworm")
        self.has("dpkg-query", "echo 'ii '")
        self.has("id", "echo 0")
        self.has("apt-get", f'echo apt-get "$@" >>{self.log}')
        self.python(f'echo python "$@" >>{self.log}')

    def has(self, command: str, does: str) -> None:
        """Put a shell script where `command` is looked up."""
        self._script(self.commands / command, does)

    def python(self, does: str) -> None:
        """A virtual environment whose Python does something."""
        (self.folder / ".venv/bin").mkdir(parents=True, exist_ok=True)
        self._script(self.folder / ".venv/bin/python", does)

    def system(self, name: str) -> None:
        (self.folder / "os-release").write_text({**SYSTEMS, **UNSUPPORTED}[name])

    def install(self, kind: str = "runtime", *, by: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """Run the installer; `by` is a command that runs it."""
        return subprocess.run(
            [*by, self.folder / "scripts/install", kind, self.folder / "os-release"],
            env={"PATH": f"{self.commands}:{os.environ['PATH']}", "TMPDIR": str(self.folder)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def installed(self) -> str:
        """The lock file that pip installed since the last call.

        Nothing came from anywhere else, pip itself stayed as it was, and the transport was compiled afterwards; so was
        libibverbs, unless that had been tried before.
        """
        asked, locked, project, bytecode, compilation, *verbs = self.did()
        assert asked == "python -I -m pip --version"
        pip = "python -I -m pip install --disable-pip-version-check"
        assert locked.startswith(f"{pip} --no-compile --require-hashes -r requirements/")
        assert project == f"{pip} --no-deps --no-build-isolation --no-index -e ."
        assert bytecode.startswith("python -I -m compileall -q")
        assert compilation == COMPILE
        assert verbs in ([], [BUILD_VERBS])
        return locked.rpartition("/")[2]

    def did(self) -> list[str]:
        """Lines logged since the last call, but for what was only asked."""
        lines = [line for line in self.log.read_text().splitlines() if "--simulate" not in line]
        self.log.write_text("")
        return lines

    def _script(self, path: Path, does: str) -> None:
        path.write_text(f"#!/bin/sh\n{does}\n")
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def refusal(machine: Machine, kind: str = "runtime") -> str:
    """The message that the installer ends with."""
    result = machine.install(kind)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    return result.stderr.strip()


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_second_run_does_nothing(machine: Machine, system: str) -> None:
    machine.system(system)
    first = machine.install()
    assert (first.returncode, first.stderr) == (0, "")
    assert machine.installed() == "runtime.txt"
    second = machine.install()
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert machine.did() == []


def test_the_development_environment_includes_the_runtime(machine: Machine) -> None:
    machine.install("dev")
    assert machine.installed() == "dev.txt"
    machine.install("runtime")
    assert machine.did() == []


def test_a_changed_project_is_installed_again(machine: Machine) -> None:
    machine.install()
    machine.did()
    (machine.folder / "pyproject.toml").write_text('[project]\nname = "other"\n')
    machine.install()
    assert machine.installed() == "runtime.txt"


def test_an_updated_lock_file_is_installed(machine: Machine) -> None:
    machine.install()
    machine.did()
    (machine.folder / "requirements/runtime.txt").write_text("newer\n")
    machine.install()
    assert machine.installed() == "runtime.txt"


def test_a_changed_transport_is_recompiled_but_not_for_tests(machine: Machine) -> None:
    machine.install("dev")
    machine.did()
    (machine.folder / "mrc_host").mkdir()
    (machine.folder / "mrc_host/nic.py").write_text("changed = True\n")
    machine.install("dev")
    assert machine.did() == []
    assert machine.install("runtime").stdout == "Compiling the transport\n"
    assert machine.did() == [COMPILE]
    machine.install("runtime")
    assert machine.did() == []


def test_modules_compiled_for_the_runtime_are_used_by_tests(machine: Machine) -> None:
    machine.install("runtime")
    compiled = machine.folder / ".venv/compiled/some-hash"
    compiled.mkdir()
    machine.did()
    machine.install("dev")
    assert machine.installed() == "dev.txt"  # and asked whether it has to be compiled
    assert compiled.is_dir()
    assert machine.install("dev").stdout == ""
    assert machine.did() == []


def test_lint_does_not_wait_for_the_compiler(machine: Machine) -> None:
    machine.install("lint")
    *installed, bytecode = machine.did()
    assert any(line.endswith("requirements/dev.txt") for line in installed)
    assert bytecode.startswith("python -I -m compileall")
    machine.install("dev")
    assert machine.did() == [COMPILE, BUILD_VERBS]


def test_a_failed_compilation_does_not_fail_the_installation(machine: Machine) -> None:
    machine.python('case "$*" in *compile_transport*) echo "no compiler" >&2; exit 1 ;; esac')
    first = machine.install()
    assert (first.returncode, first.stderr) == (0, "no compiler\n")
    assert machine.install().stderr == ""


def test_libibverbs_is_built_once_and_its_absence_reported_once(machine: Machine) -> None:
    machine.python(
        f'case "$*" in *libibverbs*) echo "python $*" >>{machine.log}; echo "no headers" >&2; exit 1 ;; esac'
    )
    assert [machine.install().stderr for _ in range(2)] == ["no headers\n", ""]
    assert machine.did() == [BUILD_VERBS]
    (machine.folder / "mrc_host/libibverbs").mkdir(parents=True)
    (machine.folder / "mrc_host/libibverbs/agent.c").write_text("changed\n")
    assert machine.install("dev").returncode == 0
    assert BUILD_VERBS in machine.did()


@pytest.mark.parametrize("system", UNSUPPORTED)
def test_unsupported_systems_are_refused_before_anything_changes(machine: Machine, system: str) -> None:
    machine.system(system)
    assert refusal(machine).startswith("This system is not supported: use Debian 12 or Ubuntu 22.04 or newer")
    assert machine.did() == []


def test_a_system_without_os_release_is_refused(machine: Machine) -> None:
    (machine.folder / "os-release").unlink()
    assert "not supported" in refusal(machine)


def test_only_root_installs_missing_packages(machine: Machine) -> None:
    machine.has("dpkg-query", 'case "$*" in *gcc*) exit 1 ;; *) echo "ii " ;; esac')
    machine.has("id", "echo 1000")
    assert refusal(machine) == "Debian packages are missing (gcc): run this once with sudo."
    assert machine.did() == []
    machine.has("id", "echo 0")
    assert machine.install().returncode == 0
    installs = "apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 gcc"
    assert machine.did()[:2] == ["apt-get update", installs]


@pytest.mark.parametrize(("system", "hint"), [("bookworm", "try again"), ("jammy", "universe")])
def test_an_apt_failure_shows_its_output_and_advice(machine: Machine, system: str, hint: str) -> None:
    machine.system(system)
    machine.has("dpkg-query", 'case "$*" in *mininet*) exit 1 ;; *) echo "ii " ;; esac')
    machine.has("apt-get", '[ "$1" = update ] || { echo "E: Unable to locate package mininet" >&2; exit 100; }')
    result = machine.install()
    assert result.returncode == 1
    assert result.stderr.startswith("E: Unable to locate package mininet\n")
    assert hint in result.stderr
    assert "all output: " in result.stderr


def test_another_apt_get_is_waited_for(machine: Machine) -> None:
    """A new system installs its own updates; apt-get waits by itself for dpkg's lock only."""
    machine.has("dpkg-query", 'case "$*" in *gcc*) exit 1 ;; *) echo "ii " ;; esac')
    held = machine.folder / "held"
    locked = 'echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 17 (apt-get)" >&2; exit 100'
    machine.has("apt-get", f'[ "$1" != update ] || [ ! -e {held} ] || {{ rm {held}; {locked}; }}')
    machine.has("sleep", "exec /bin/sleep 0.01")
    held.touch()
    result = machine.install()
    assert (result.returncode, result.stderr, held.exists()) == (0, "", False)
    machine.has("apt-get", locked)
    result = machine.install()
    assert result.returncode == 1
    assert "held by process 17 (apt-get)" in result.stderr
    assert "mend what it says" in result.stderr


def test_after_a_pip_failure_nothing_counts_as_installed(machine: Machine) -> None:
    machine.python('case "$*" in *-r*) echo "no index" >&2; exit 1 ;; esac')
    result = machine.install()
    assert result.returncode == 1
    assert "check that a package index can be reached" in result.stderr
    machine.python(f'echo python "$@" >>{machine.log}')
    assert machine.install().returncode == 0
    assert machine.installed() == "runtime.txt"


def test_an_environment_owned_by_another_user_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to other users
        Path(folder).chmod(0o755)
        machine = Machine(Path(folder))
        (machine.folder / ".venv").chmod(0o555)
        nobody = ("setpriv", "--reuid=65534", "--clear-groups") if os.geteuid() == 0 else ()
        result = machine.install(by=nobody)
    assert result.returncode == 1
    assert result.stderr == "The virtual environment .venv is another user's: run this once with sudo.\n"


def test_an_unknown_argument_prints_the_usage(machine: Machine) -> None:
    assert refusal(machine, "everything") == "usage: scripts/install runtime|dev|lint"


@pytest.mark.parametrize("leaves", ["mrc_testbed.egg-info", "nothing"])
def test_under_sudo_the_environment_is_given_to_the_user(machine: Machine, leaves: str) -> None:
    """Whether or not pip has left an .egg-info folder beside the sources."""
    if leaves != "nothing":
        (machine.folder / leaves).mkdir()
    machine.has("chown", f'echo chown "$@" >>{machine.log}; shift 2; for each; do [ -e "$each" ] || exit 1; done')
    result = machine.install(by=("env", "SUDO_UID=1234", "SUDO_GID=5678"))
    assert result.returncode == 0, result.stderr
    given = [words for line in machine.did() if (words := line.split())[0] == "chown"]
    assert {words[2] for words in given} == {"1234:5678"}
    assert {Path(name).name for words in given for name in words[3:]} >= {".venv"} | ({leaves} - {"nothing"})


class Waiting:
    """An installer whose pip has collected two of four packages, and waits."""

    def __init__(self, machine: Machine, out: int) -> None:
        lock = "".join(f"package{number}==1 \\\n    --hash=x\n" for number in range(4))
        (machine.folder / "requirements/runtime.txt").write_text(lock)
        for command in ("nice", "ionice"):
            machine.has(command, f'echo {command} "$@" >>{machine.log}; shift 2; exec "$@"')
        self._go = machine.folder / "go"
        os.mkfifo(self._go)
        collects = "echo Collecting package0==1; echo Collecting package1==1"
        machine.python(f'case "$*" in *require-hashes*) {collects}; read line <{self._go} ;; esac')
        self._installer = subprocess.Popen(
            [machine.folder / "scripts/install", "runtime", machine.folder / "os-release"],
            env={"PATH": f"{machine.commands}:{os.environ['PATH']}", "TMPDIR": str(machine.folder)},
            stdout=out,
        )
        os.close(out)

    def finish(self) -> None:
        self._go.write_text("go on\n")
        assert self._installer.wait() == 0


def printed(descriptor: int, wanted: str) -> str:
    """What comes up to and with `wanted`."""
    text = ""
    while wanted not in text:
        part = os.read(descriptor, 4096).decode()
        assert part, text
        text += part
    return text


def test_what_takes_long_says_how_far_it_is(machine: Machine) -> None:
    output, out = os.pipe()
    waiting = Waiting(machine, out)
    lines = printed(output, ")\n").splitlines()
    assert lines == ["Installing Python packages into .venv", "Installing Python packages (2 of 4)"]
    waiting.finish()
    os.close(output)


def test_on_a_terminal_a_line_changes_and_goes(machine: Machine) -> None:
    output, out = os.openpty()
    waiting = Waiting(machine, out)
    printed(output, "\rInstalling Python packages (2 of 4), 0:0")
    waiting.finish()
    printed(output, "\r\x1b[K")
    os.close(output)


def test_what_is_compiled_leaves_the_machine_to_others(machine: Machine) -> None:
    output, out = os.pipe()
    Waiting(machine, out).finish()
    os.close(output)
    gentle = [line for line in machine.did() if line.startswith("nice -n 19 ionice -c 3 .venv/bin/python")]
    for what in ("compileall", "scripts.compile_transport", "mrc_host.libibverbs"):
        assert any(what in line for line in gentle), what
