"""Networks of p4lang's tutorials, in memory: wires of a topology.json, entries of its runtime.json files."""

from __future__ import annotations

import ipaddress
import json
import os
from collections import defaultdict
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import p4compiler
from mrc_common.p4_match import Exact, Lpm
from p4runtime_shim.entities import ActionCall, Entry, Replica
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program.model.control_flow import Key
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4compiler.corpus.midend import json_of

_PATH = os.environ.get("TUTORIALS_PATH", "")
EXERCISES = Path(_PATH) / "exercises"
CPU_PORT = 510
_PORTS = (*range(1, 9), CPU_PORT)
_PACKET_NS = 1_000_000
_ROUNDS = 500  # of waiting for ports

End = tuple[str, int]  # a switch and its port


def solution(name: str) -> Path:
    """The solved program of an exercise; that of p4runtime needs no solving."""
    solved = EXERCISES / name / "solution" / f"{name}.p4"
    return solved if solved.exists() else EXERCISES / name / "advanced_tunnel.p4"


@cache
def loaded(path: Path) -> Pipeline:
    """A program for the embedded switch; raises P4Error or Unsupported."""
    return Pipeline.load(json_of(path))


class Network(ExitStack):
    """The switches and wires of a topology. Time passes between packets, and while frames wait for a port's rate."""

    def __init__(
        self, topology: str, *, program: Path, others: dict[str, Path] | None = None, entries: bool = True
    ) -> None:
        """`topology` is a path below EXERCISES; `program` runs on every switch that `others` does not name.

        Without `entries`, the tables start empty.
        """
        super().__init__()
        exercise = EXERCISES / Path(topology).parts[0]
        described = json.loads((EXERCISES / topology).read_text())
        self.now = 0
        self.hosts: dict[End, str] = {}
        self.wires: dict[End, End] = {}
        self.addresses = {
            name: (_number(host["mac"]), _number(host["ip"].split("/")[0])) for name, host in described["hosts"].items()
        }
        self.switches = {
            name: self.enter_context(EmbeddedSwitch(loaded((others or {}).get(name, program)), ports=_PORTS, seed=1))
            for name in described["switches"]
        }
        for first, second, *_ in described["links"]:
            if "-" in first:
                self.wires[_end(first)], self.wires[_end(second)] = _end(second), _end(first)
            else:
                self.hosts[_end(second)] = first
        for name, switch in described["switches"].items():
            if entries and "runtime_json" in switch:
                self.configure(name, exercise / switch["runtime_json"])

    def configure(self, switch: str, runtime: Path) -> None:
        """Write what a runtime.json lists."""
        control = self.switches[switch].control_plane
        listed = json.loads(runtime.read_text())
        for entry in listed.get("table_entries", ()):
            self.add(switch, **entry)
        for group in listed.get("multicast_group_entries", ()):
            replicas = tuple(Replica(item["egress_port"], item["instance"]) for item in group["replicas"])
            control.replication.group_set(group["multicast_group_id"], replicas)

    def add(
        self,
        switch: str,
        table: str,
        action_name: str,
        action_params: dict[str, str | int],
        match: dict[str, str | int | list[str | int]] | None = None,
        default_action: bool = False,
    ) -> None:
        """Write one entry in the words of a runtime.json."""
        device = self.switches[switch]
        assert device.pipeline is not None
        program = device.pipeline.program
        found = next(item for item in program.tables if item.name == table)
        action = next(item for item in program.actions if item.name == action_name)
        call = ActionCall(action_name, tuple(_number(action_params[item.name]) for item in action.params))
        if default_action:
            device.control_plane.table(table).set_default(call)
        else:
            matches = tuple(_match(key, (match or {})[key.name]) for key in found.keys)
            device.control_plane.table(table).insert(Entry(matches, call))

    def send(self, host: str, *frames: bytes) -> dict[str, list[bytes]]:
        """Frames that a host sends at the same moment; what comes out, by host, or by switch for its CPU port."""
        self.now += _PACKET_NS
        ((switch, port),) = (end for end, name in self.hosts.items() if name == host)
        for frame in frames:
            self.switches[switch].receive(port, frame, self.now)
        return self._settle()

    def send_from_controller(self, switch: str, frame: bytes) -> dict[str, list[bytes]]:
        """As `send`, of a packet-out."""
        self.now += _PACKET_NS
        self.switches[switch].receive(CPU_PORT, frame, self.now)
        return self._settle()

    def _settle(self) -> dict[str, list[bytes]]:
        out: dict[str, list[bytes]] = defaultdict(list)
        for _ in range(_ROUNDS):
            while self._forward(out):
                pass
            waiting = [time for switch in self.switches.values() if (time := switch.wakeup()) is not None]
            if not waiting:
                return dict(out)
            self.now = max(self.now, *waiting)
            for switch in self.switches.values():
                switch.tick(self.now)
        raise AssertionError("frames wait for ever")

    def _forward(self, out: dict[str, list[bytes]]) -> bool:
        """Send what may leave now; whether something did."""
        sent = False
        for name, switch in self.switches.items():
            for port in _PORTS:
                while (frame := switch.transmit(port, self.now)) is not None:
                    sent = True
                    self._arrive((name, port), frame, out)
        return sent

    def _arrive(self, end: End, frame: bytes, out: dict[str, list[bytes]]) -> None:
        if end in self.wires:
            switch, port = self.wires[end]
            self.switches[switch].receive(port, frame, self.now)
        elif end in self.hosts:
            out[self.hosts[end]].append(frame)
        elif end[1] == CPU_PORT:
            out[end[0]].append(frame)


def refused_lines(path: Path) -> set[int]:
    """Lines of the errors of a program that does not compile."""
    try:
        p4compiler.compile(path)
    except p4compiler.P4Error as error:
        return {item.span.line for item in error.diagnostics if item.span and item.severity == "error"}
    return set()


def _end(text: str) -> End:
    switch, _, port = text.partition("-p")
    return switch, int(port)


def _number(value: str | int) -> int:
    if isinstance(value, int):
        return value
    if ":" in value:
        return int(value.replace(":", ""), 16)
    return int(ipaddress.IPv4Address(value)) if "." in value else int(value, 0)


def _match(key: Key, value: str | int | list[str | int]) -> Exact | Lpm:
    if isinstance(value, list) and key.kind == "lpm":
        address, length = value
        return Lpm(_number(address), int(length))
    assert key.kind == "exact"
    return Exact(_number(value[0] if isinstance(value, list) else value))
