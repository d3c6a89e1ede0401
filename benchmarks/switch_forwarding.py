"""Packets through the embedded switch on veth pairs, compared with a bare C loop and, where installed, with BMv2.

All are measured in turn in the same run, each round beginning with another: the highest offered rate with under 1 %
loss; CPU time a packet at that rate, which says more than the rates when others use the machine; and what passes under
a flood of a million packets/s on one port while control packets arrive on another. The program is the fabric's, a uSID
shift. The bare loop is recvmmsg and sendmmsg and nothing between them. With rings, the traffic's sender and receiver
share memory with the switch, as NICs do with ``--wire ring``. What it costs to measure delays is the embedded
switch measuring, over the same not measuring.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import median

import grpc

import mrc_common
from benchmarks.links import (
    BLOCK,
    VethPair,
    bmv2_process,
    client,
    control_class,
    inside,
    links,
    namespace,
    switch_process,
    usid_entries,
)
from benchmarks.report import Measurement
from mrc_common import children
from mrc_common.frame_rings import FrameRings
from p4runtime_shim.proto import switch_v1_pb2 as pb
from p4runtime_shim.proto import switch_v1_pb2_grpc as pb_grpc

SIZES = (128, 1400, 4200)
TRIAL_S = 0.4
FLOOD_S = 0.7
SETTLE_S = 0.25
ROUNDS = 3
SEARCH_STEPS = 5
MAX_LOSS = 0.01
FLOOD_RATE = 1_000_000
CONTROL_RATE = 1000
CONTROL_DSCP = 46
_DATA_BYTE = "60"
_TICK = os.sysconf("SC_CLK_TCK")
_FROM, _TO, _CONTROL = 0, 1, 2


@dataclass(frozen=True)
class Trial:
    """What one trial carried: frames in and out a second, CPU seconds a frame that came out."""

    offered: float
    carried: float
    cpu: float

    @property
    def loss(self) -> float:
        """Share of the frames that were lost."""
        return 1 - self.carried / self.offered if self.offered else 1.0


@dataclass(frozen=True)
class Result:
    """Of one forwarder at one frame size: frames/s, CPU seconds a frame, share of control packets that passed."""

    lossless: float
    cpu: float
    flooded: float
    control: float


Forwarder = Callable[[], AbstractContextManager[tuple[int, list[VethPair]]]]
"""A process that forwards, and the wires to reach it by."""


def measure() -> Iterator[Measurement]:
    """Measurements of the switch, with their ratios."""
    with tempfile.TemporaryDirectory() as name, namespace() as where, links(3, where) as wires:
        folder = Path(name)
        tool = folder / "packets"
        headers = Path(mrc_common.__file__).parent
        children.run(["cc", "-O2", "-I", headers, "-o", tool, Path(__file__).with_name("packets.c")], check=True)
        forwarders: dict[str, Forwarder] = {
            "bare": lambda: _bare(tool, wires, where),
            "ours": lambda: _embedded(wires, where, folder),
            "measuring": lambda: _embedded(wires, where, folder, measure_delays=True),
            "rings": lambda: _ringed(wires, where, folder),
        }
        if shutil.which("simple_switch_grpc"):
            forwarders["bmv2"] = lambda: _bmv2(wires, where, folder)
        for size in SIZES:
            found: dict[str, list[Result]] = {name: [] for name in forwarders}
            for turn in range(ROUNDS):
                order = list(forwarders)[turn:] + list(forwarders)[:turn]
                for name in order:
                    with forwarders[name]() as (pid, reached):
                        found[name].append(_trials(tool, reached, pid, size, name))
            yield from _measurements(size, found)


def _measurements(size: int, found: dict[str, list[Result]]) -> Iterator[Measurement]:
    def typical(name: str, of: Callable[[Result], float]) -> float:
        return median(map(of, found[name]))

    bare = "bare AF_PACKET loop"
    lossless, cpu, flooded = typical("ours", _lossless), typical("ours", _cpu_each), typical("ours", _flooded)
    # The machine's speed changes while this runs: each round's own ratio is taken, not the ratio of the medians.
    ratio = median(
        ours.lossless / (bare.lossless or 1) for ours, bare in zip(found["ours"], found["bare"], strict=True)
    )
    yield Measurement(f"switch_lossless_{size}B", lossless, "packets/s", ratio, bare)
    yield Measurement(f"switch_cpu_{size}B", cpu, "s/packet", cpu / typical("bare", _cpu_each), bare)
    yield Measurement(f"switch_flood_{size}B", flooded, "packets/s", flooded / lossless, "lossless rate")
    yield Measurement(f"switch_flood_control_{size}B", typical("ours", lambda item: item.control), "share")
    rings = median(
        with_rings.lossless / (bare.lossless or 1)
        for with_rings, bare in zip(found["rings"], found["bare"], strict=True)
    )
    yield Measurement(
        f"switch_rings_lossless_{size}B", typical("rings", _lossless), "packets/s", rings, "bare AF_PACKET loop"
    )
    rings_cpu = typical("rings", _cpu_each)
    yield Measurement(
        f"switch_rings_cpu_{size}B",
        rings_cpu,
        "s/packet",
        rings_cpu / typical("bare", _cpu_each),
        "bare AF_PACKET loop",
    )
    measuring = median(item.cpu / ours.cpu for item, ours in zip(found["measuring"], found["ours"], strict=True))
    yield Measurement(
        f"switch_measuring_cpu_{size}B", typical("measuring", _cpu_each), "s/packet", measuring, "not measuring"
    )
    if "bmv2" in found:
        per_core = typical("bmv2", _cpu_each) / cpu
        yield Measurement(f"switch_per_core_{size}B", 1 / cpu, "packets/CPU-s", per_core, "simple_switch_grpc")
        yield Measurement(f"bmv2_lossless_{size}B", typical("bmv2", _lossless), "packets/s")
        yield Measurement(f"bmv2_flood_{size}B", typical("bmv2", _flooded), "packets/s")


def _lossless(item: Result) -> float:
    return item.lossless


def _cpu_each(item: Result) -> float:
    return item.cpu


def _flooded(item: Result) -> float:
    return item.flooded


@contextmanager
def _bare(tool: Path, wires: list[VethPair], where: str) -> Iterator[tuple[int, list[VethPair]]]:
    command = [*inside(where), str(tool), "forward", wires[_FROM].inside, wires[_TO].inside, "3600"]
    process = children.popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process.pid, wires
    finally:
        process.kill()
        process.communicate()


@contextmanager
def _embedded(
    wires: list[VethPair], where: str, folder: Path, *, measure_delays: bool = False
) -> Iterator[tuple[int, list[VethPair]]]:
    interfaces = [word for number, wire in enumerate(wires, 1) for word in ("-i", f"{number}@{wire.inside}")]
    options = ["--device-id", "1", "--no-p4", "--grpc-server-addr", f"unix:{folder}/p4rt.sock"]
    with switch_process(*interfaces, *options, where=where) as (process, address):
        asyncio.run(_program(address))
        if measure_delays:
            with grpc.insecure_channel(address) as channel:
                stub = pb_grpc.SwitchManagementStub(channel)  # type: ignore[no-untyped-call]
                stub.GetDelays(pb.GetDelaysRequest(measure=True))
        yield process.pid, wires


@contextmanager
def _ringed(wires: list[VethPair], where: str, folder: Path) -> Iterator[tuple[int, list[VethPair]]]:
    address = f"unix:{folder}/p4rt.sock"
    ports = {number: wire.inside for number, wire in enumerate(wires, 1)}
    with ExitStack() as stack:
        rings = [stack.enter_context(FrameRings()) for _ in wires]
        ends = {wire.inside: list(astuple(made.ends[0])) for wire, made in zip(wires, rings, strict=True)}
        config = folder / "rings.json"
        switch = {"device_id": 1, "ports": ports}
        config.write_text(json.dumps({"grpc": address, "wires": {"rings": ends}, "switches": [switch]}))
        inherits = [descriptor for made in rings for descriptor in made.ends[0].descriptors]
        process, _ = stack.enter_context(switch_process("--config", str(config), where=where, inherits=inherits))
        asyncio.run(_program(address))
        yield (
            process.pid,
            [
                VethPair(wire.inside, f"ring:{made.ends[1]}", made.ends[1].descriptors)
                for wire, made in zip(wires, rings, strict=True)
            ],
        )


@contextmanager
def _bmv2(wires: list[VethPair], where: str, folder: Path) -> Iterator[tuple[int, list[VethPair]]]:
    with bmv2_process([wire.inside for wire in wires], where, folder) as (process, address):
        asyncio.run(_program(address))
        ports = range(1, len(wires) + 1)
        children.run([*inside(where), *children.python("benchmarks.bmv2_queues", *map(str, ports))], check=True)
        yield process.pid, wires


async def _program(address: str) -> None:
    async with client(address) as switch:
        await switch.write([+entry for entry in (*usid_entries(1), control_class(CONTROL_DSCP))])


def _trials(tool: Path, wires: list[VethPair], pid: int, size: int, name: str) -> Result:
    flood, control = _flood(tool, wires, pid, size, with_control=name != "bare")
    low, high, cpu = 0.0, max(flood.carried, 1000) * 1.6, flood.cpu
    for _ in range(SEARCH_STEPS):
        rate = (low + high) / 2
        trial = _trial(tool, wires, pid, size, rate, TRIAL_S)
        if trial.loss < MAX_LOSS:
            low = max(low, min(rate, trial.offered))
            cpu = trial.cpu
        else:
            high = rate
    return Result(low, cpu, flood.carried, control)


def _flood(tool: Path, wires: list[VethPair], pid: int, size: int, *, with_control: bool) -> tuple[Trial, float]:
    """A flood on one port, and on another a little control traffic that goes the same way."""
    if not with_control:
        return _trial(tool, wires, pid, size, FLOOD_RATE, FLOOD_S), 0.0
    frame = usid_packet(size, CONTROL_DSCP).hex()
    command = [tool, "send", wires[_CONTROL].outside, str(size), str(CONTROL_RATE), str(FLOOD_S), frame]
    with _counting(tool, wires, FLOOD_S) as counter:
        before = _cpu(pid)
        words, descriptors = [str(word) for word in command], wires[_CONTROL].descriptors
        other = children.popen(words, stdout=subprocess.PIPE, text=True, pass_fds=descriptors)
        sent = _send(tool, wires, size, FLOOD_RATE, FLOOD_S)
        control_sent = int(other.communicate()[0])
        received, control = map(int, counter.communicate()[0].split())
        used = _cpu(pid) - before
    flood = Trial(sent / FLOOD_S, (received - control) / FLOOD_S, used / received if received else 0.0)
    return flood, control / control_sent


def _trial(tool: Path, wires: list[VethPair], pid: int, size: int, rate: float, seconds: float) -> Trial:
    with _counting(tool, wires, seconds) as counter:
        before = _cpu(pid)
        sent = _send(tool, wires, size, rate, seconds)
        received = int(counter.communicate()[0].split()[0])
        used = _cpu(pid) - before
    return Trial(sent / seconds, received / seconds, used / received if received else 0.0)


@contextmanager
def _counting(tool: Path, wires: list[VethPair], seconds: float) -> Iterator[subprocess.Popen[str]]:
    command = [str(tool), "count", wires[_TO].outside, str(seconds + SETTLE_S), _DATA_BYTE]
    counter = children.popen(command, stdout=subprocess.PIPE, text=True, pass_fds=wires[_TO].descriptors)
    assert counter.stdout is not None
    counter.stdout.readline()
    try:
        yield counter
    finally:
        counter.kill()
        counter.wait()


def _send(tool: Path, wires: list[VethPair], size: int, rate: float, seconds: float) -> int:
    command = [str(tool), "send", wires[_FROM].outside, str(size), str(rate), str(seconds), usid_packet(size).hex()]
    descriptors = wires[_FROM].descriptors
    return int(children.run(command, capture_output=True, text=True, check=True, pass_fds=descriptors).stdout)


def usid_packet(size: int, dscp: int = 0) -> bytes:
    """An IPv6 packet in another with a uSID list for this switch."""
    destination = struct.pack("!IHHHHHH", BLOCK, 0x2001, 0x4001, 0x2002, 0x6001, 0, 0)
    source = bytes.fromhex("fd006d72630000000000000000000001")
    inner = struct.pack("!IHBB", 6 << 28 | dscp << 22, size - 94, 59, 64) + source + source
    ethernet = bytes.fromhex("020000000010 020000000011 86dd")
    return ethernet + struct.pack("!IHBB", 6 << 28 | dscp << 22, size - 54, 41, 64) + source + destination + inner


def _cpu(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK
