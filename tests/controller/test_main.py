"""``python -m controller`` as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from finsy.proto import p4r

from controller.client import ControllerClient
from controller.command import arguments
from tests.controller.p4runtime_stand_in import StandIn
from topologies.emulation.processes import READY_FD
from topologies.fabric import Fabric
from topologies.loader import dump_text


def start(fabric: Fabric, address: str, tmp_path: Path, *more: str) -> tuple[subprocess.Popen[str], int]:
    (tmp_path / "fabric.yaml").write_text(dump_text(fabric))
    read, write = os.pipe()
    argv = [str(write) if word == READY_FD else word for word in _argv(tmp_path, address)]
    process = subprocess.Popen([*argv, *more], pass_fds=(write,), stderr=subprocess.PIPE, text=True)
    os.close(write)
    return process, read


def _argv(tmp_path: Path, address: str) -> tuple[str, ...]:
    return arguments(tmp_path / "fabric.yaml", address, tmp_path / "c.sock")


def test_it_reports_serves_and_ends_on_sigterm(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Callable[[], None], tmp_path: Path
) -> None:
    serving()
    process, ready = start(fabric, address, tmp_path)
    with os.fdopen(ready) as stream:
        assert stream.readline().startswith("ready: 8 switches, ")
    with ControllerClient(tmp_path / "c.sock") as client:
        assert client.status().ready
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=10) == (None, "")
    assert process.returncode == 0
    assert not (tmp_path / "c.sock").exists()


def test_an_unverified_switch_is_exit_status_1_and_a_sentence(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Callable[[], None], tmp_path: Path
) -> None:
    stand_in.swallow = lambda device_id, entity: _is_dscp_46(entity)
    serving()
    process, ready = start(fabric, address, tmp_path)
    _, errors = process.communicate(timeout=30)
    with os.fdopen(ready) as stream:
        assert stream.read() == ""
    assert process.returncode == 1
    assert "t0-0@p0: entry 46 of table traffic_class is missing" in errors
    assert "Traceback" not in errors


def _is_dscp_46(entity: p4r.Entity) -> bool:
    entry = entity.table_entry
    return bool(entry.match) and entry.match[0].exact.value == bytes((46,))


def test_a_wrong_fabric_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "fabric.yaml").write_text("planes: 2")
    argv = [word for word in _argv(tmp_path, "unix:x") if word not in ("--ready-fd", READY_FD)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert "name is missing" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_every_option() -> None:
    done = subprocess.run([sys.executable, "-m", "controller", "--help"], capture_output=True, text=True, check=True)
    for option in ("--fabric", "--switches", "--socket", "--ready-fd", "--ready-timeout", "--p4"):
        assert option in done.stdout
