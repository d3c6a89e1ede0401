"""Plays a script against the NIC under test: sends, expects, and says at which line something else happened.

A :class:`Scene` is one connection with what came over it. Requests of the NIC to the endpoint (port status, path
probes) are answered as they come, unless the script says ``silent``, since a NIC rightly avoids a peer that does not
answer them. Everything else is up to the script.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from mrc_common.units import show_time
from mrc_host.config import NicConfig
from mrc_host.errors import MrcError
from mrc_host.verbs.errors import AgentLostError
from mrc_host.verbs_types import QpAddress
from mrc_host.wire import control
from mrc_lab.conformance.bodies import REMOTE, RKEY, body_of
from mrc_lab.conformance.nic_under_test import Finished, NicUnderTest
from mrc_lab.conformance.packets import Numbering, Packet, PacketReader, PacketWriter
from mrc_lab.conformance.script import Script, ScriptField, ScriptStep, ScriptValue
from mrc_lab.conformance.value_ranges import check_numbers
from mrc_lab.conformance.wires import Wire

MTU = 1024  # path MTU of random peers
ROUND_NS = 2_000_000  # how long a random peer waits for the NIC before it goes on
LONGEST_NS = 60_000_000_000  # until a random peer must be done
GREETING_NS = 200_000_000  # how long the NIC may take to answer the report of the peer's ports
_LOOK_NS = 1_000_000  # how often completions are looked for while frames come
_DRAIN_NS = 1_000_000
_MOST_PACKETS = 100_000
KEPT_BYTES = 16 << 20  # of the frames of one scene, the first: a NIC that floods, or never answers, has no more kept
_SHOWN = 4


class ScriptError(Exception):
    """The NIC did something else than a step expects."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A frame of the examination, in either direction, and which line it belongs to."""

    time_ns: int
    port: int
    frame: bytes
    comment: str


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What came of a script: `reason` is empty if the NIC kept the rule."""

    name: str
    rule: str
    title: str
    reason: str
    frames: tuple[Passed, ...]

    @property
    def kept(self) -> bool:
        """Whether the NIC did all that the script expects."""
        return not self.reason


def play(
    script: Script, wire: Wire, nic: NicUnderTest, config: NicConfig, destination: bytes, seed: int
) -> RuleVerdict:
    """Play a script as the NIC that `config` describes, towards the NIC with address `destination`.

    Raises AgentLostError or ExperimentError when the application or an interface is gone.
    """
    rng = Random(f"{seed} {script.name}")
    frames: list[Passed] = []
    reason = ""
    for _ in range(script.times):
        scene = Scene(wire, nic, config, destination, rng)
        step = script.steps[0]
        try:
            for step in script.steps:
                scene.play(step)
        except AgentLostError:
            raise  # the application is gone, which is no verdict on the NIC
        except (ScriptError, MrcError) as error:
            reason = f"line {step.line}: {step.text}: {error}"
        finally:
            nic.disconnect()
        frames += scene.frames
        if reason:
            break
    return RuleVerdict(script.name, script.rule, script.title, reason, tuple(frames))


class Scene:
    """One connection between the kit and the NIC under test."""

    def __init__(self, wire: Wire, nic: NicUnderTest, config: NicConfig, destination: bytes, rng: Random) -> None:
        self.frames: list[Passed] = []
        self.writer = PacketWriter(config, destination)
        self._kept = 0  # bytes of `frames`
        self._wire = wire
        self._nic = nic
        self._config = config
        self._destination = destination
        self._rng = rng
        self._attributes: dict[str, int] = {}
        self._connected = False
        self._silent = False
        self._came: list[Packet] = []  # that no step has taken yet
        self._all: list[Packet] = []
        self._named: dict[str, Packet] = {}
        self._finished: list[Finished] = []
        self._units = 0
        self._cack = -1  # that was acknowledged
        self._newest = -1  # PSN of the newest data packet of the NIC
        self._steps = {
            "qp": self._set_attributes, "<": self._send_step, ">": self._expect, "no": self._expect_none,
            "post": self._post, "complete": self._complete, "memory": self._memory, "spread": self._spread,
            "skipped": self._skipped, "taken": self._taken, "wait": self._wait, "forget": self._forget,
            "silent": self._be_silent,
        }  # fmt: skip

    def play(self, step: ScriptStep) -> None:
        """Do one step; ScriptError when the NIC does something else."""
        if step.verb != "qp":
            self.connect()
        self._steps[step.verb](step)

    # ---- connection and frames

    @property
    def planes(self) -> int:
        """How many ports both ends have."""
        return len(self._config.ports)

    def now(self) -> int:
        """The wire's time in ns."""
        return self._wire.now()

    def connect(self, **attributes: int) -> None:
        """Connect, unless that is done."""
        if self._connected:
            return
        self._connected = True
        psn, qpn = self._rng.getrandbits(24), self._rng.randrange(3, 1 << 24)
        peer = QpAddress(self._config.address, qpn, psn)
        self.nic_end = self._nic.connect(peer, {**self._attributes, **attributes})
        self.numbering = Numbering(qpn, psn, self.nic_end.psn, REMOTE)
        self._reader = PacketReader(self._config, self.numbering, self._destination)
        # An earlier script may have reported a port as down. Whatever its id was, one of these is newer.
        up = {"operation": control.OP_PORT_STATUS_UPDATE, "mask": (1 << self.planes) - 1}
        for number in (0, 0x5555, 0xAAAA):
            self.send("request", {**up, "id": number}, "all ports are up")
        deadline = self.now() + GREETING_NS
        while (packet := self.receive(deadline)) is not None:
            if packet.kind == "response" and packet.fields["id"] == number:
                break

    def send(self, kind: str, given: Mapping[str, int], comment: str = "") -> None:
        """Send a packet with these fields."""
        if kind == "sack":
            self._cack = max(self._cack, given["cack"])
            self._units += 1
            given = {"units": self._units, **given}
        elif kind == "ack":
            given = {"psn": self._newest, **given}
        body = body_of(kind, given, self.numbering, self.nic_end, self._config.settings)
        port = given.get("plane", 0)
        frame = self.writer.frame(kind, body, port, given)
        self._keep(Passed(self._wire.now(), port, frame, comment or f"sent: {kind}"))
        self._wire.send(port, frame)

    def receive(self, until: int) -> Packet | None:
        """The next packet of this connection; None when there was none by then."""
        while True:
            frame = self._wire.receive(until)
            if frame is None:
                return None
            packet = self._reader.read(*frame)
            if packet is None:
                continue
            kept = self._keep(Passed(*frame, f"received: {packet}"))
            if packet.kind == "data":
                self._newest = max(self._newest, packet.fields["psn"])
            elif packet.kind == "request" and not self._silent:
                self._answer(packet)
            if kept and len(self._all) < _MOST_PACKETS:
                self._all.append(packet)
                self._came.append(packet)
            return packet

    def _keep(self, passed: Passed) -> bool:
        """Keep a frame for the results, while there is room."""
        self._kept += len(passed.frame)
        if self._kept > KEPT_BYTES:
            return False
        self.frames.append(passed)
        return True

    def _answer(self, request: Packet) -> None:
        operation = request.fields["operation"]
        if operation in (control.OP_PORT_STATUS_UPDATE, control.OP_EV_PROBE):
            fields = {name: request.fields[name] for name in ("id", "operation", "stamp", "plane")}
            self.send("response", fields)

    def finished(self) -> list[Finished]:
        """Completions that no step took yet."""
        self._finished += self._nic.finished()
        return self._finished

    def memory_differs(self, offset: int, wanted: bytes) -> int | None:
        """First offset at which the NIC's memory is not as wanted; None if it is."""
        found = self._nic.memory(offset, len(wanted))
        if found == wanted:
            return None
        return next((offset + i for i, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), offset)

    def post(self, wr_id: int, size: int, imm: int | None) -> None:
        """Have the NIC write its first `size` bytes to the peer."""
        self._nic.write(wr_id, size, REMOTE, RKEY, imm)

    # ---- steps

    def _set_attributes(self, step: ScriptStep) -> None:
        self._attributes = self._numbers(step.chosen)

    def _send_step(self, step: ScriptStep) -> None:
        given: dict[str, int] = {}
        shown: list[int] = []
        for field in step.chosen:
            if field.name == "of":
                of = self._packet(field.value.word)
                given.update(echo=of.fields["ev"], stamp=of.fields["stamp"], of_psn=of.fields["psn"])
            elif field.name == "shows":
                shown.append(self._packet(field.value.word).fields["psn"])
            elif field.name == "rkey" and field.value.word == "wrong":
                given["rkey"] = self.nic_end.rkey ^ 1
            else:
                given[field.name] = self._range(field.value)[0]
        for psn in shown:
            bit = psn - given["cack"] - given.get("base", 1)
            if not 0 <= bit < 64:
                raise ScriptError(f"PSN {psn} is not in the bitmap")
            given["bitmap"] = given.get("bitmap", 0) | 1 << bit
        self._check(step, given)
        port = given.get("plane", 0)
        if port >= self.planes:
            raise ScriptError(f"there is no plane {port}: the NIC has {self.planes} ports")
        evs = self.writer.evs(port)
        if given.get("path", 0) >= len(evs):
            raise ScriptError(f"plane {port} has {len(evs)} paths, counted from 0")
        given.setdefault("ev", evs[given.get("path", 0)])
        try:
            self.send(step.kind, given, f"line {step.line}: {step.text}")
        except (struct.error, OverflowError, ValueError):
            raise ScriptError("a value does not fit its field") from None
        if step.called:
            self._named[step.called] = Packet(self._wire.now(), given.get("plane", 0), b"", step.kind, given)

    def _expect(self, step: ScriptStep) -> None:
        packet = self._find(step, self._wire.now() + step.time)
        if packet is None:
            of_kind = [str(one) for one in self._came if one.kind == step.kind][-_SHOWN:]
            raise ScriptError(
                f"none came within {show_time(step.time)}"
                + (f"; the last of this kind: {'; '.join(of_kind)}" if of_kind else f", nor any other {step.kind}")
            )
        if packet in self._came:  # unless there was no room for it
            self._came.remove(packet)
        for check in step.checks:
            if not self._holds(check, packet):
                found = packet.fields.get(check.name, "missing")
                raise ScriptError(f"{check.name} is {found} in: {packet}")
        if step.called:
            self._named[step.called] = packet

    def _expect_none(self, step: ScriptStep) -> None:
        deadline = self._wire.now() + step.time
        if step.kind == "complete":
            if self._find_completion(step, deadline) is not None:
                raise ScriptError("one came")
            return
        packet = next((one for one in self._all if self._is_meant(step, one)), None) or self._find(step, deadline)
        if packet is not None:
            raise ScriptError(f"one came: {packet}")

    def _post(self, step: ScriptStep) -> None:
        given = self._checked(step)
        self.post(given.get("wr", 1), given["size"], given.get("imm"))

    def _complete(self, step: ScriptStep) -> None:
        found = self._find_completion(step, self._wire.now() + step.time)
        if found is None:
            others = "; ".join(map(str, self._finished[-_SHOWN:]))
            raise ScriptError(f"none came within {show_time(step.time)}" + (f"; others: {others}" if others else ""))
        self._finished.remove(found)

    def _memory(self, step: ScriptStep) -> None:
        given = self._checked(step)
        wanted = bytes([given.get("fill", 0)]) * given["size"]
        differs = self.memory_differs(given.get("offset", 0), wanted)
        if differs is not None:
            raise ScriptError(f"byte {differs} is 0x{self._nic.memory(differs, 1).hex()}")

    def _spread(self, step: ScriptStep) -> None:
        given = self._checked(step)
        packets: list[Packet] = []
        deadline = self._wire.now() + step.time
        wanted = ScriptStep(step.line, step.text, ">", "data")
        while len(packets) < given["count"]:
            packet = self._find(wanted, deadline)
            if packet is None:
                raise ScriptError(f"only {len(packets)} came within {show_time(step.time)}")
            self._came.remove(packet)
            packets.append(packet)
        shares = [sum(packet.port == port.plane for packet in packets) for port in self._config.ports]
        if max(shares) - min(shares) > given.get("planes", len(packets)):
            raise ScriptError(f"planes carry {', '.join(map(str, shares))} packets")
        evs = {packet.fields["ev"] for packet in packets}
        if len(evs) < given.get("evs", 0):
            raise ScriptError(f"they use {len(evs)} entropy values")

    def _skipped(self, step: ScriptStep) -> None:
        (of,) = (field.value.word for field in step.chosen if field.name == "of")
        (count,) = (field.value.low for field in step.chosen if field.name == "count")
        path, cack, deadline = self._packet(of), self._cack, self._wire.now() + step.time
        came = [one for one in self._all if one.time_ns > path.time_ns]
        # Retransmissions and reliability probes take part in the rotation.
        while sum(one.port == path.port and one.kind in ("data", "probe") for one in came) < count:
            packet = self.receive(deadline)
            if packet is None:
                raise ScriptError(f"{count} did not come within {show_time(step.time)}")
            came.append(packet)
            if packet.kind not in ("data", "probe"):
                continue
            if packet.fields["ev"] == path.fields["ev"]:
                raise ScriptError(f"this one took the path: {packet}")
            if packet.fields.get("psn") == cack + 1:
                cack += 1
            self.send("sack", {"cack": cack}, f"line {step.line}: acknowledged")

    def _taken(self, step: ScriptStep) -> None:
        """Retransmissions do not count: they may take any path."""
        (of,) = (field.value.word for field in step.chosen if field.name == "of")
        (count,) = (field.value.low for field in step.chosen if field.name == "count")
        path, deadline = self._packet(of), self._wire.now() + step.time
        for _ in range(count):
            packet = self.receive(deadline)
            while packet is not None and (packet.kind != "data" or packet.fields["rtx"]):
                packet = self.receive(deadline)
            if packet is None:
                raise ScriptError(f"{count} did not come within {show_time(step.time)}")
            if packet.fields["ev"] == path.fields["ev"]:
                return
            fields = packet.fields
            given = {"echo": fields["ev"], "stamp": fields["stamp"], "of_psn": fields["psn"]}
            given |= {"cack": max(self._cack, fields["psn"]), "mark": control.MARK_ALWAYS_SKIP}
            self.send("sack", given, f"line {step.line}: acknowledged")
        raise ScriptError("none took the path")

    def _wait(self, step: ScriptStep) -> None:
        until = self._wire.now() + step.time
        while self.receive(until) is not None:
            pass

    def _forget(self, step: ScriptStep) -> None:
        """Frames that the NIC has sent by now have arrived by the next look."""
        until = self._wire.now() + _DRAIN_NS
        while self.receive(until) is not None:
            pass
        self._came.clear()
        self._all.clear()

    def _be_silent(self, step: ScriptStep) -> None:
        self._silent = True

    # ---- values

    def _find(self, step: ScriptStep, deadline: int) -> Packet | None:
        """The first packet that came, or comes by then, of the step's kind and with its fields."""
        for packet in self._came:
            if self._is_meant(step, packet):
                return packet
        while True:
            came = self.receive(deadline)
            if came is None or self._is_meant(step, came):
                return came

    def _is_meant(self, step: ScriptStep, packet: Packet) -> bool:
        return packet.kind == step.kind and all(self._holds(field, packet) for field in step.chosen)

    def _find_completion(self, step: ScriptStep, deadline: int) -> Finished | None:
        while True:
            for one in self.finished():
                if self._is_completion(step.chosen, one):
                    return one
            now = self._wire.now()
            if now >= deadline:
                return None
            self.receive(min(deadline, now + _LOOK_NS))

    def _is_completion(self, chosen: Sequence[ScriptField], one: Finished) -> bool:
        numbers = {"wr": one.wr_id, "imm": one.imm, "received": int(one.received)}
        for field in chosen:
            if field.name == "status":
                holds = field.value.word == one.status
            else:
                low, high = self._range(field.value)
                holds = low <= numbers[field.name] <= high
            if holds != field.equal:
                return False
        return True

    def _holds(self, field: ScriptField, packet: Packet) -> bool:
        if field.name not in packet.fields:
            raise ScriptError(f"a {packet.kind} has no field {field.name}")
        low, high = self._range(field.value)
        return (low <= packet.fields[field.name] <= high) == field.equal

    def _numbers(self, fields: Sequence[ScriptField]) -> dict[str, int]:
        return {field.name: self._range(field.value)[0] for field in fields}

    def _checked(self, step: ScriptStep) -> dict[str, int]:
        """The numbers of a step, which may be those of packets; ScriptError for one that it cannot have."""
        given = self._numbers(step.chosen)
        self._check(step, given)
        return given

    def _check(self, step: ScriptStep, given: Mapping[str, int]) -> None:
        try:
            check_numbers(f"{step.verb} {step.kind}".strip(), given)
        except ValueError as error:
            raise ScriptError(str(error)) from None

    def _range(self, value: ScriptValue) -> tuple[int, int]:
        if not value.packet:
            return value.low, value.high
        packet = self._packet(value.packet)
        if value.field not in packet.fields:
            raise ScriptError(f"a {packet.kind} has no field {value.field}")
        number = packet.fields[value.field] + value.low
        return number, number

    def _packet(self, name: str) -> Packet:
        try:
            return self._named[name]
        except KeyError:
            raise ScriptError(f"no packet is called {name}") from None
