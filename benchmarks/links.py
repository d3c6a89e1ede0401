"""Veth pairs and running switch processes for the switch benchmarks.

What is measured may run in a network namespace of its own, with the inside ends of the pairs: BMv2 has to, as its
Thrift port is open to everybody who can reach the machine.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import finsy

from mrc_common import children
from topologies.emulation.switches import bmv2_options

FABRIC = Path(__file__).parents[1] / "p4src" / "build" / "fabric.json"
BLOCK = 0xFC000000


@dataclass(frozen=True)
class VethPair:
    """One veth pair: the switch's end and the benchmark's, or instead an end of rings with its descriptors."""

    inside: str
    outside: str
    descriptors: tuple[int, ...] = ()


@contextmanager
def namespace() -> Iterator[str]:
    """The name of a network namespace, removed afterwards."""
    name = f"bench{os.getpid()}"
    _ip([f"netns add {name}"])
    try:
        _ip([f"-n {name} link set lo up"])
        yield name
    finally:
        _ip([f"netns del {name}"])


def inside(where: str | None) -> list[str]:
    """What goes before a command that is to run in a namespace."""
    return [] if where is None else ["ip", "netns", "exec", where]


@contextmanager
def links(count: int, where: str | None = None) -> Iterator[list[VethPair]]:
    """Veth pairs without traffic of their own, removed afterwards; the inside ends lie in namespace `where`."""
    prefix = f"bm{os.getpid() % 10000}"
    made = [VethPair(f"{prefix}s{n}", f"{prefix}t{n}") for n in range(count)]
    _ip([f"link add {item.inside} mtu 4500 type veth peer name {item.outside} mtu 4500" for item in made])
    try:
        for item in made:
            for name in (item.inside, item.outside):
                setting = Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6")
                if setting.exists():
                    setting.write_text("1")
        if where is not None:
            _ip([f"link set {item.inside} netns {where}" for item in made])
        _ip([f"link set {item.inside} up" for item in made], where)
        _ip([f"link set {item.outside} up" for item in made])
        yield made
    finally:
        _ip([f"link del {item.outside}" for item in made])


def _ip(commands: list[str], where: str | None = None) -> None:
    if where is None and commands[0].startswith(("netns", "-n")):
        children.run(["ip", *commands[0].split()], check=True)
        return
    options = [] if where is None else ["-n", where]
    children.run(["ip", *options, "-batch", "-"], input="\n".join(commands), text=True, check=True)


@contextmanager
def switch_process(
    *arguments: str, where: str | None = None, inherits: Sequence[int] = ()
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A ready `python -m p4runtime_shim` and its gRPC address; `inherits` are descriptors that it is given."""
    command = [*inside(where), *children.python("p4runtime_shim", *arguments)]
    process = children.popen(
        command, stdout=subprocess.PIPE, text=True, cwd=FABRIC.parents[2], pass_fds=tuple(inherits)
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("ready "):
            raise RuntimeError("the switch process did not start")
        yield process, line.split("grpc=")[1].split()[0]
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def bmv2_process(interfaces: list[str], where: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A ready simple_switch_grpc in a namespace, and its gRPC address; device id 1, logging off."""
    path = folder / "bmv2.sock"
    path.unlink(missing_ok=True)
    command = [*inside(where), "simple_switch_grpc", "--no-p4", "--device-id", "1"]
    for number, name in enumerate(interfaces, 1):
        command += ["-i", f"{number}@{name}"]
    command += bmv2_options({"--thrift-port": "9090", "--notifications-addr": f"ipc://{folder}/notify.ipc"})
    command += ["--"]
    command += ["--grpc-server-addr", f"unix:{path}", "--priority-queues", "8", "--cpu-port", "510"]
    process = children.popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not _listens(path):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("simple_switch_grpc did not start")
            time.sleep(0.05)
        yield process, f"unix:{path}"
    finally:
        process.terminate()
        process.wait(10)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def client(address: str, device_id: int = 1) -> finsy.Switch:
    """A finsy client that sets the fabric program; it would warn on every connection that a switch speaks no gNMI."""
    logging.getLogger("finsy").setLevel(logging.ERROR)
    options = finsy.SwitchOptions(p4info=FABRIC.with_suffix(".p4info.txtpb"), p4blob=FABRIC, device_id=device_id)
    return finsy.Switch(f"sw{device_id}", address, options)


def usid_entries(count: int, first: int = 0x4001) -> list[finsy.P4TableEntry]:
    """The switch's own uSID 0x2001, and `count` next uSIDs from `first` on, all to port 2."""
    local = finsy.P4TableEntry(
        "usid_local", match=finsy.Match(locator=BLOCK << 16 | 0x2001), action=finsy.Action("usid_shift")
    )
    forward = [
        finsy.P4TableEntry(
            "usid_next",
            match=finsy.Match(locator=BLOCK << 16 | (first + n)),
            action=finsy.Action("usid_endpoint.set_egress", port=2, dmac=0x020000000001, smac=0x020000000002),
        )
        for n in range(count)
    ]
    return [local, *forward]


def control_class(dscp: int) -> finsy.P4TableEntry:
    """A DSCP whose packets overtake the others."""
    return finsy.P4TableEntry(
        "traffic_class", match=finsy.Match(dscp=dscp), action=finsy.Action("set_priority", priority=7)
    )
