"""``python -m controller`` as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from finsy.proto import p4r

from controller import fault_file
from controller.client import ControllerClient
from controller.command_line import arguments
from controller.errors import ControllerError
from tests.controller.p4runtime_stand_in import StandIn
from tests.controller.serving import TOKEN, certificate, free_port, token_file
from topologies.clos import multi_plane_clos
from topologies.emulation.processes import READY_FD
from topologies.entries import switch_entries
from topologies.entry_difference import count
from topologies.fabric import Fabric
from topologies.faults import FaultState
from topologies.faults.blackhole import Blackhole
from topologies.faults.loss import Loss
from topologies.loader import dump_text

ROOT = Path(__file__).resolve().parents[2]
FABRIC = multi_plane_clos("ctltest", planes=2, t0=2, t1=2, hosts=4)


def start(fabric: Fabric, address: str, tmp_path: Path, *more: str) -> tuple[subprocess.Popen[str], int]:
    (tmp_path / "fabric.yaml").write_text(dump_text(fabric))
    read, write = os.pipe()
    argv = [str(write) if word == READY_FD else word for word in _argv(tmp_path, address)]
    process = subprocess.Popen([*argv, *more], pass_fds=(write,), stderr=subprocess.PIPE, text=True)
    os.close(write)
    return process, read


def _argv(tmp_path: Path, address: str) -> tuple[str, ...]:
    return arguments(tmp_path / "fabric.yaml", address, tmp_path / "c.sock")


def test_it_prints_readiness_serves_and_exits_on_sigterm(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Callable[[], None], tmp_path: Path
) -> None:
    serving()
    process, ready = start(fabric, address, tmp_path)
    with os.fdopen(ready) as stream:
        assert stream.readline().startswith("ready: 8 switches, ")
    with ControllerClient(tmp_path / "c.sock") as client:
        assert client.status().ready
    process.send_signal(signal.SIGTERM)
    assert process.communicate() == (None, "")
    assert process.returncode == 0
    assert not (tmp_path / "c.sock").exists()


def test_netlink_is_imported_only_for_commands_on_links() -> None:
    code = "import sys, controller.__main__; raise SystemExit('pyroute2' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)  # it would be a third of a controller's start


def test_an_unverified_switch_exits_with_status_1_and_a_message(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Callable[[], None], tmp_path: Path
) -> None:
    stand_in.swallow = lambda device_id, entity: _is_dscp_46(entity)
    serving()
    process, ready = start(fabric, address, tmp_path)
    _, errors = process.communicate()
    with os.fdopen(ready) as stream:
        assert stream.read() == ""
    assert process.returncode == 1
    assert "t0-0@p0: entry 46 of table traffic_class is missing" in errors
    assert "Traceback" not in errors


def _is_dscp_46(entity: p4r.Entity) -> bool:
    entry = entity.table_entry
    return bool(entry.match) and entry.match[0].exact.value == bytes((46,))


def test_an_invalid_fabric_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "fabric.yaml").write_text("planes: 2")
    argv = [word for word in _argv(tmp_path, "unix:x") if word not in ("--ready-fd", READY_FD)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "name is missing" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_every_option() -> None:
    done = subprocess.run([sys.executable, "-m", "controller", "--help"], capture_output=True, text=True, check=True)
    for option in ("--fabric", "--switches", "--socket", "--ready-fd", "--ready-timeout", "--p4"):
        assert option in done.stdout


def test_it_serves_clients_with_the_token_over_tls(
    fabric: Fabric, stand_in: StandIn, address: str, serving: Callable[[], None], tmp_path: Path
) -> None:
    serving()
    cert, key = certificate(tmp_path)
    where = f"localhost:{free_port()}"
    more = (
        "--listen",
        where,
        "--token-file",
        str(token_file(tmp_path)),
        "--tls-cert",
        str(cert),
        "--tls-key",
        str(key),
    )
    process, ready = start(fabric, address, tmp_path, *more)
    with os.fdopen(ready) as stream:
        assert stream.readline().startswith("ready: ")
    with ControllerClient(where, token=TOKEN, tls_ca=cert) as client:
        assert client.status().ready
        assert len(client.topology().switches) == 8
    with ControllerClient(where, tls_ca=cert) as client, pytest.raises(ControllerError, match="wants a token"):
        client.status()
    process.send_signal(signal.SIGTERM)
    assert process.communicate() == (None, "")
    assert process.returncode == 0


def refused(fabric: Fabric, tmp_path: Path, *more: str) -> tuple[int, str]:
    (tmp_path / "fabric.yaml").write_text(dump_text(fabric))
    argv = (
        sys.executable,
        "-m",
        "controller",
        "--fabric",
        str(tmp_path / "fabric.yaml"),
        "--switches",
        "unix:x",
        *more,
    )
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_listening_on_the_network_without_token_and_tls_is_refused(fabric: Fabric, tmp_path: Path) -> None:
    status, errors = refused(fabric, tmp_path, "--listen", "0.0.0.0:9559")
    assert status == 1
    assert errors.startswith("0.0.0.0:9559 is reachable from the network, which requires a token and TLS")
    assert errors.count("\n") == 1


def test_wrong_arguments_exit_with_status_2(fabric: Fabric, tmp_path: Path) -> None:
    status, errors = refused(fabric, tmp_path)
    assert (status, "no address to serve at" in errors) == (2, True)
    status, errors = refused(fabric, tmp_path, "--socket", str(tmp_path / "c"), "--keep-faults")
    assert (status, "--keep-faults needs --fault-file" in errors) == (2, True)


def faults_of_switch(stand_in: StandIn) -> int:
    """Entries of the fault tables, in all switches."""
    static = sum(count(switch_entries(FABRIC, switch)) for switch in FABRIC.switches)
    return sum(len(device.entities) for device in stand_in.devices.values()) - static


@pytest.mark.second_ring
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_next_controller_resumes_kept_faults(
    stand_in: StandIn, address: str, serving: Callable[[], None], tmp_path: Path, end: signal.Signals
) -> None:
    """Of kinds that need no interface, so that this needs no root."""
    serving()
    keep = ("--keep-faults", "--fault-file", str(tmp_path / "faults.json"))
    process, ready = start(FABRIC, address, tmp_path, *keep)
    with os.fdopen(ready) as stream:
        stream.readline()
    with ControllerClient(tmp_path / "c.sock") as client:
        client.inject(Blackhole("t1-0@p0"), owner="me")
        client.inject(Loss("h1@p0", 0.5))
        client.clear("f2")
        client.inject(Loss("t0-0:t1-0@p0", 0.5))
        later = client.inject(Loss("h1@p0", 0.25), after_ns=3600 * 10**9)
    process.send_signal(end)
    process.communicate()
    held = faults_of_switch(stand_in)
    assert held > 0

    process, ready = start(FABRIC, address, tmp_path, *keep)
    with os.fdopen(ready) as stream:
        assert stream.readline().startswith("ready: ")
    with ControllerClient(tmp_path / "c.sock") as client:
        silent, loss, pending = client.faults()
        assert loss.fault == Loss("t0-0:t1-0@p0", 0.5)
        assert (silent.id, silent.owner, silent.fault) == ("f1", "me", Blackhole("t1-0@p0"))
        assert pending == later
        assert all(switch.repaired == 0 for switch in client.status().switches), "it was taken away for a moment"
        assert client.inject(Blackhole("t1-1@p0")).id == "f5"
        for one in ("f1", "f3", "f5"):
            client.clear(one)
        assert faults_of_switch(stand_in) == 0
    process.terminate()
    assert process.communicate() == (None, "")


@pytest.mark.second_ring
def test_without_keep_faults_the_next_controller_undoes_the_faults_of_a_killed_one(
    stand_in: StandIn, address: str, serving: Callable[[], None], tmp_path: Path
) -> None:
    serving()
    file = ("--fault-file", str(tmp_path / "faults.json"))
    process, ready = start(FABRIC, address, tmp_path, *file)
    with os.fdopen(ready) as stream:
        stream.readline()
    with ControllerClient(tmp_path / "c.sock") as client:
        client.inject(Blackhole("t1-0@p0"))
    process.kill()
    process.communicate()
    assert faults_of_switch(stand_in) > 0
    process, ready = start(FABRIC, address, tmp_path, *file)
    with os.fdopen(ready) as stream:
        assert stream.readline().startswith("ready: ")
    with ControllerClient(tmp_path / "c.sock") as client:
        assert client.faults() == []
        assert client.inject(Blackhole("t1-1@p0")).id == "f2", "an id that somebody may still know was given again"
    assert faults_of_switch(stand_in) > 0
    process.terminate()
    assert process.communicate() == (None, "")
    assert faults_of_switch(stand_in) == 0
    kept = fault_file.load(tmp_path / "faults.json")
    assert [(fault.id, fault.state) for fault in kept] == [("f2", FaultState.CLEARED)], "its id is not used again"
