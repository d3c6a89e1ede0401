from __future__ import annotations

from pathlib import Path

import pytest

from p4runtime_shim.config import load_file
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.emulation.errors import EmulationError
from topologies.emulation.run_directory import RunDirectory
from topologies.emulation.switch_kind import SwitchKind
from topologies.emulation.switches import address, bmv2_options, commands, thrift_port
from topologies.fabric import Fabric, LinkEnd
from topologies.queues import QueueProfile


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory("demo", tmp_path)
    directory.create()
    return directory


@pytest.fixture
def fabric() -> Fabric:
    return multi_plane_clos("demo", rate_bps=50_000_000, uplink_rate_bps=20_000_000)


def test_one_process_carries_all_embedded_switches(fabric: Fabric, run: RunDirectory) -> None:
    (command,) = commands(fabric, run, SwitchKind.EMBEDDED)
    settings = load_file(Path(command.argv[command.argv.index("--config") + 1]))
    assert settings.grpc_address == address(run, SwitchKind.EMBEDDED) == f"unix:{run.path}/switches.sock"
    assert [(s.name, s.device_id) for s in settings.switches] == [(s.name, s.device_id) for s in fabric.switches]
    t0 = settings.switches[0]
    assert t0.ports == {p: addressing.interface_name(fabric, LinkEnd("t0-0@p0", p)) for p in range(1, 7)}
    assert t0.rates == {1: 50_000_000, 2: 50_000_000, **dict.fromkeys(range(3, 7), 20_000_000)}
    assert t0.cpu_port == 510
    limit = fabric.queues.bytes_at(fabric.queues.limit, 50_000_000, fabric.mtu)
    assert t0.queues.max_packets * (fabric.mtu + 14) > limit
    assert t0.queues.buffer_packets >= t0.queues.max_packets * len(t0.ports)
    assert len({s.seed for s in settings.switches}) == len(settings.switches), "ECMP differs from switch to switch"


def test_flow_control_is_set_on_every_embedded_port_and_ignored_for_bmv2(run: RunDirectory) -> None:
    fabric = multi_plane_clos("demo", rate_bps=50_000_000, queues=QueueProfile(pfc=True))
    (command,) = commands(fabric, run, SwitchKind.EMBEDDED)
    settings = load_file(Path(command.argv[command.argv.index("--config") + 1]))
    profile = fabric.queues
    for switch in settings.switches:
        assert switch.pauses.keys() == switch.ports.keys()
        pause = switch.pauses[1]
        assert pause.xoff == profile.bytes_at(profile.pfc_xoff, 50_000_000, fabric.mtu)
        assert switch.queues.max_packets * (fabric.mtu + 14) > (pause.xoff + pause.headroom) * len(switch.ports)
    with pytest.raises(EmulationError, match="BMv2 has no priority flow control"):
        commands(fabric, run, SwitchKind.BMV2)


def test_embedded_per_process_starts_a_process_for_each_switch(fabric: Fabric, run: RunDirectory) -> None:
    found = commands(fabric, run, SwitchKind.EMBEDDED_PER_PROCESS)
    assert [command.name for command in found] == [f"switch-{switch.name}" for switch in fabric.switches]
    template = address(run, SwitchKind.EMBEDDED_PER_PROCESS)
    for command, switch in zip(found, fabric.switches, strict=True):
        settings = load_file(Path(command.argv[command.argv.index("--config") + 1]))
        assert settings.grpc_address == template.format(name=switch.name)
        assert [s.device_id for s in settings.switches] == [switch.device_id]


@pytest.mark.parametrize("nanomsg", [True, False])
def test_bmv2_gets_the_notifications_option_only_when_built_with_nanomsg(
    nanomsg: bool, fabric: Fabric, run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without nanomsg its parser does not know the option, and it does not start."""
    fake = tmp_path / "simple_switch_grpc"
    known = "  --notifications-addr arg  nanomsg address\n" if nanomsg else ""
    fake.write_text(f"#!/bin/sh\nprintf 'Usage: SWITCH_NAME [options]\n  --thrift-port arg\n{known}'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    argv = commands(fabric, run, SwitchKind.BMV2)[0].argv
    assert ("--notifications-addr" in argv) is nanomsg
    assert argv.index("--") < argv.index("--grpc-server-addr")


def test_bmv2_gets_only_options_it_supports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In benchmarks and tests too: BMv2 ends at once when it does not know one."""
    wanted = {"--thrift-port": "9090", "--notifications-addr": "ipc:///tmp/x"}
    fake = tmp_path / "simple_switch_grpc"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert bmv2_options(wanted) == []  # none is installed
    fake.write_text("#!/bin/sh\nprintf 'Options:\n  --thrift-port arg\n'\n")
    fake.chmod(0o755)
    assert bmv2_options(wanted) == ["--thrift-port", "9090"]


def test_bmv2_gets_its_usual_options(fabric: Fabric, run: RunDirectory) -> None:
    found = commands(fabric, run, SwitchKind.BMV2)
    assert len(found) == len(fabric.switches)
    argv = found[0].argv
    options, target = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    assert options[:4] == ("simple_switch_grpc", "--no-p4", "--device-id", "1")
    interfaces = [options[i + 1] for i, word in enumerate(options) if word == "-i"]
    assert interfaces == [
        f"{port}@{addressing.interface_name(fabric, LinkEnd('t0-0@p0', port))}" for port in range(1, 7)
    ]
    assert target[target.index("--grpc-server-addr") + 1] == address(run, SwitchKind.BMV2).format(name="t0-0@p0")
    assert target[target.index("--priority-queues") + 1] == "8"
    assert target[target.index("--cpu-port") + 1] == "510"
    assert thrift_port(found[0]) > 0
    assert found[0].ready_socket == f"{run.path}/switch-t0-0@p0.sock"
    ports = [command.argv[command.argv.index("--thrift-port") + 1] for command in found]
    assert all(port.isdigit() for port in ports)
