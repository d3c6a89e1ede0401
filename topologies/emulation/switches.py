"""Command lines of the switch processes: the embedded switch, all in one process or one each, and BMv2.

Both get their interfaces and a UNIX socket for P4Runtime and start without a program: the controller installs
it. The embedded switch paces its ports itself, and sends through the queueing discipline of its interfaces: there is
none but while a fault makes a link slower. BMv2 does not pace in bits per second, so its interfaces get a token
bucket. Kernel switches (``kernel_switch``) have no process.
"""

from __future__ import annotations

import functools
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from mrc_common import children, strict_json
from mrc_common.written_files import write_text
from topologies import addressing
from topologies.emulation.errors import EmulationError
from topologies.emulation.processes import READY_FD, Command
from topologies.emulation.run_directory import RunDirectory
from topologies.emulation.switch_kind import SwitchKind
from topologies.emulation.wire_kind import WireKind
from topologies.emulation.wires import FabricWires
from topologies.fabric import Fabric, LinkEnd, Switch

CPU_PORT = 510  # p4src/headers.p4: packets to and from the controller


def address(run: RunDirectory, kind: SwitchKind) -> str:
    """GRPC address of the switches; ``{name}`` in it stands for the switch's name where each has its own."""
    return f"unix:{run.switches_socket if kind is SwitchKind.EMBEDDED else run.switch_socket('{name}')}"


def address_in_use(run: RunDirectory) -> str:
    """The address of the switches of a fabric that is up, as :func:`address` gives it."""
    return address(
        run, SwitchKind.EMBEDDED if run.config_file("switches").exists() else SwitchKind.EMBEDDED_PER_PROCESS
    )


def commands(fabric: Fabric, run: RunDirectory, kind: SwitchKind, wires: FabricWires | None = None) -> list[Command]:
    """The processes to start, with their configuration files written; without `wires` they only have interfaces."""
    wires = wires or FabricWires(fabric, kind, WireKind.VETH)
    if kind is SwitchKind.BMV2 and fabric.queues.pfc:
        raise EmulationError("BMv2 has no priority flow control: use the embedded switch, or turn pfc off.")
    if kind is SwitchKind.BMV2:
        return [_bmv2(fabric, run, switch) for switch in fabric.p4_switches]
    if not fabric.p4_switches:
        return []
    if kind is SwitchKind.EMBEDDED:
        return [_embedded(fabric, run, wires, "switches", address(run, kind), fabric.p4_switches)]
    return [
        _embedded(
            fabric,
            run,
            wires,
            f"switch-{switch.name}",
            address(run, kind).format(name=switch.name),
            (switch,),
        )
        for switch in fabric.p4_switches
    ]


def _embedded(
    fabric: Fabric, run: RunDirectory, wires: FabricWires, name: str, grpc: str, switches: Sequence[Switch]
) -> Command:
    config = run.config_file(name)
    ports = [_embedded_settings(fabric, switch) for switch in switches]
    names = {switch.name for switch in switches}
    more = wires.settings(names, run.wire_counters(name))
    write_text(config, strict_json.dumps({"grpc": grpc, "qdisc": True, "switches": ports, **more}))
    argv = children.python("p4runtime_shim", "--config", str(config), "--ready-fd", READY_FD)
    return Command(name, argv, inherits=wires.descriptors(names))


def _embedded_settings(fabric: Fabric, switch: Switch) -> dict[str, Any]:
    rates = {port: link.rate_bps for port in switch.ports if (link := fabric.link_at(LinkEnd(switch.name, port)))}
    frames = queue_frames(fabric, switch)
    return {
        "name": switch.name,
        "device_id": switch.device_id,
        "ports": {port: addressing.interface_name(fabric, LinkEnd(switch.name, port)) for port in switch.ports},
        "rates": rates,
        "cpu_port": CPU_PORT,
        "queues": {"max_packets": frames, "buffer_packets": frames * (len(switch.ports) + 1)},
        "seed": switch.device_id,
        "pauses": {port: _pause(fabric, rate) for port, rate in rates.items()} if fabric.queues.pfc else {},
    }


def _pause(fabric: Fabric, rate_bps: int) -> dict[str, int]:
    """Flow control of a port (p4runtime_shim.traffic_manager.PauseConfig)."""
    profile = fabric.queues
    shares = {"xoff": profile.pfc_xoff, "xon": profile.pfc_xon, "headroom": profile.pfc_headroom}
    sizes = {name: profile.bytes_at(share, rate_bps, fabric.mtu) for name, share in shares.items()}
    return {"rate_bps": rate_bps, **sizes}


def queue_frames(fabric: Fabric, switch: Switch) -> int:
    """Packets for which each of a switch's queues has room: more than the P4 program's own limit on data."""
    links = (fabric.link_at(LinkEnd(switch.name, port)) for port in switch.ports)
    frames = (fabric.queues.queue_frames(link.rate_bps, fabric.mtu, len(switch.ports)) for link in links if link)
    return max(frames, default=1)  # a switch may have lost all its links


def _bmv2(fabric: Fabric, run: RunDirectory, switch: Switch) -> Command:
    path = run.switch_socket(switch.name)
    argv = ["simple_switch_grpc", "--no-p4", "--device-id", str(switch.device_id)]
    for port in switch.ports:
        argv += ["-i", f"{port}@{addressing.interface_name(fabric, LinkEnd(switch.name, port))}"]
    argv += ["--thrift-port", str(_free_tcp_port())]
    argv += bmv2_options({"--notifications-addr": f"ipc://{run.path}/notify-{switch.device_id}.ipc"})
    argv += ["--", "--grpc-server-addr", f"unix:{path}", "--priority-queues", "8", "--cpu-port", str(CPU_PORT)]
    return Command(f"switch-{switch.name}", tuple(argv), ready_socket=str(path))


def bmv2_options(wanted: Mapping[str, str]) -> list[str]:
    """Those of BMv2's options, with their values, that the installed one was built with: it refuses those it lacks.

    Without nanomsg it has no ``--notifications-addr``, without Thrift no ``--thrift-port``.
    """
    path = shutil.which("simple_switch_grpc")
    known = "" if path is None else _bmv2_help(path)
    return [word for option, value in wanted.items() if option in known for word in (option, value)]


@functools.cache
def _bmv2_help(path: str) -> str:
    try:
        done = children.run([path, "--help"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmulationError(f"{path} does not run: {error}.") from None
    return str(done.stdout)


def thrift_port(command: Command) -> int:
    """TCP port of a BMv2 process's Thrift interface."""
    return int(command.argv[command.argv.index("--thrift-port") + 1])


def _free_tcp_port() -> int:
    """A TCP port that was free a moment ago: BMv2's Thrift server cannot choose one for itself."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
