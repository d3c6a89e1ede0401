from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until
from topologies.emulation import run_directory
from topologies.emulation.errors import EmulationError, InUseError
from topologies.emulation.run_directory import RunDirectory, existing, start_time

HOLD = (
    "import sys; from pathlib import Path; from topologies.emulation.run_directory import RunDirectory\n"
    "with RunDirectory('demo', Path(sys.argv[1])).locked():\n"
    "    print('held', flush=True); sys.stdin.read()\n"
)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory("demo", tmp_path / "mrc")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes(), "its command line")
    yield process
    process.kill()
    process.wait()


def test_the_directory_is_private(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_directory, "group_id", lambda name: None)
    run.create()
    assert run.path.stat().st_mode & 0o777 == 0o700
    run.path.chmod(0o755)
    run.create()
    assert run.path.stat().st_mode & 0o777 == 0o700


def test_a_group_may_reach_sockets_but_not_list_the_directory(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_directory, "group_id", lambda name: os.getegid() if name == "mrc" else None)
    run.create()
    status = run.path.stat()
    assert (status.st_mode & 0o777, status.st_gid) == (0o710, os.getegid())
    for part in ("logs", "processes"):
        assert (run.path / part).stat().st_mode & 0o777 == 0o700


def test_paths_are_inside_and_short_enough_for_sockets() -> None:
    run = RunDirectory("x" * 32)
    assert str(run.path) == "/run/mrc/" + "x" * 32
    host, switch = run.host_socket("h65535.control"), run.switch_socket("t0-509@p7")
    for path in (run.switches_socket, run.controller_socket, host, switch):
        assert path.parent == run.path
        assert len(str(path)) < 108


def test_only_one_process_holds_the_lock(run: RunDirectory) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    assert run.owner() == holder.pid
    with pytest.raises(InUseError, match=f"Fabric demo is up already \\(process {holder.pid}\\)"), run.locked():
        pass
    holder.kill()  # the kernel lets go of the lock
    holder.communicate()
    assert run.owner() is None
    with run.locked():
        assert run.owner() == os.getpid()


def test_a_directory_removed_by_its_last_owner_can_be_locked_again(run: RunDirectory) -> None:
    for _ in range(2):
        with run.locked():
            run.remove()
        assert not run.path.exists()


def test_everything_but_the_lock_counts_as_leftover(run: RunDirectory) -> None:
    assert not run.leftovers()
    with run.locked():
        (run.path / "logs").rmdir()
        (run.path / "processes").rmdir()
        assert not run.leftovers()
        run.fabric_file.write_text("x")
        assert run.leftovers()


def test_a_recorded_process_is_recognised_while_alive(run: RunDirectory, sleeper: subprocess.Popen[bytes]) -> None:
    run.create()
    run.record("sleeper", sleeper.pid, ["sleep", "60"], namespace=77)
    (record,) = run.records()
    assert record.alive()
    assert (record.name, record.pid, record.namespace) == ("sleeper", sleeper.pid, 77)
    sleeper.kill()
    sleeper.wait()
    assert not record.alive()


@pytest.mark.parametrize("change", [{"start_time": 1}, {"argv": ["sleep", "61"]}, {"argv": ["60", "sleep", "60"]}])
def test_a_reused_process_id_is_not_recognised(
    run: RunDirectory, sleeper: subprocess.Popen[bytes], change: dict[str, object]
) -> None:
    run.create()
    run.record("sleeper", sleeper.pid, ["sleep", "60"])
    path = run.path / "processes" / "sleeper.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    (record,) = run.records()
    assert not record.alive()


def test_a_recorded_process_may_run_behind_a_wrapper(run: RunDirectory) -> None:
    run.create()
    process = subprocess.Popen(["sh", "-c", "read x", "sleep", "60"], stdin=subprocess.PIPE)
    run.record("wrapped", process.pid, ["sleep", "60"])
    (record,) = run.records()
    assert record.alive()
    process.communicate()


def test_half_written_records_are_skipped(run: RunDirectory) -> None:
    run.create()
    for name, text in (("a", ""), ("b", "{"), ("c", "[]"), ("d", '{"pid": 1}'), ("e", '{"argv": 5}')):
        (run.path / "processes" / f"{name}.json").write_text(text)
    assert list(run.records()) == []


def test_a_zombie_counts_as_exited() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ProcessLookupError):
        start_time(process.pid)
    process.wait()


def test_existing_lists_fabric_directories(tmp_path: Path) -> None:
    assert existing(tmp_path / "none") == ()
    for name in ("b", "a"):
        RunDirectory(name, tmp_path).create()
    (tmp_path / "file").write_text("")
    assert existing(tmp_path) == ("a", "b")
    assert Path("/run/mrc") == run_directory.DEFAULT_ROOT


@pytest.mark.parametrize("name", ["", ".", "..", "../..", "a/b", "/", "A", "-x", "a" * 33, "x\n", "x/../y"])
def test_directories_without_a_valid_fabric_name_are_never_deleted(tmp_path: Path, name: str) -> None:
    with pytest.raises(EmulationError, match="is no name of a fabric"):
        RunDirectory(name, tmp_path)


def test_other_directories_are_not_fabrics(tmp_path: Path) -> None:
    for name in ("lab", "Not.One", "x" * 40):
        (tmp_path / name).mkdir()
    assert existing(tmp_path) == ("lab",)
