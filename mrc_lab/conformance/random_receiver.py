"""A peer to which the NIC writes over a network that loses, trims and delays.

Every byte must come, in its place, and on the way no packet may break a rule of sending: its numbers, the range of
PSNs, the RTX flag. All of it depends on the seed and, over real interfaces, on the NIC's timing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from mrc_host.wire import control
from mrc_lab.conformance.packets import Packet
from mrc_lab.conformance.player import LONGEST_NS, MTU, ROUND_NS, Scene, ScriptError

MPR = 8 * 128  # PSNs, as queue pairs have by default


@dataclass(frozen=True, slots=True)
class _Write:
    """A write of the NIC, and the PSN of its first packet."""

    wr_id: int
    size: int
    imm: int | None
    first_psn: int
    rqmsn: int

    @property
    def packets(self) -> int:
        """How many packets it takes."""
        return -(-self.size // MTU)


def random_receiver(scene: Scene, rng: Random) -> None:
    """Writes over a network that loses, trims and delays are all completed, and break no rule on the way."""
    _Receiver(scene, rng).run()


class _Receiver:
    """What came, and what was acknowledged."""

    def __init__(self, scene: Scene, rng: Random) -> None:
        self._scene = scene
        self._rng = rng
        self._loss = rng.choice((0.0, 0.05, 0.2))
        self._writes = self._post_writes()
        self._transmitted: set[int] = set()
        self._whole: set[int] = set()
        self._cack = self._acknowledged = -1

    def _post_writes(self) -> list[_Write]:
        rng, writes, psn, rqmsn = self._rng, [], 0, 0
        for number in range(rng.randrange(3, 10)):
            size = rng.choice((1, MTU, MTU + 1, rng.randrange(1, 60 * MTU)))
            imm = rng.getrandbits(32) if rng.random() < 0.3 else None
            write = _Write(number, size, imm, psn, rqmsn)
            writes.append(write)
            psn += write.packets
            rqmsn += imm is not None
            self._scene.post(number, size, imm)
        return writes

    def run(self) -> None:
        """Receive until all writes are complete."""
        scene, deadline = self._scene, self._scene.now() + LONGEST_NS
        done: list[int] = []
        while len(done) < len(self._writes):
            if scene.now() > deadline:
                raise ScriptError(f"R2.12: after a minute {len(done)} of {len(self._writes)} writes are complete")
            packet = scene.receive(scene.now() + ROUND_NS)
            if packet is not None and packet.kind == "data":
                self._check(packet)
                self._take(packet)
            elif packet is not None and packet.kind == "probe" and self._rng.random() >= self._loss:
                self._acknowledge({"probe": 1, "id": packet.fields["id"], "stamp": packet.fields["stamp"]})
            failed = [one for one in scene.finished() if one.status != "success"]
            if failed:
                raise ScriptError(f"R2.16: {failed[0]}")
            done = [one.wr_id for one in scene.finished()]
        if done != sorted(done):
            raise ScriptError(f"R2.11: writes are complete in the order {done}")

    def _check(self, packet: Packet) -> None:
        fields, psn = packet.fields, packet.fields["psn"]
        write = next((one for one in self._writes if 0 <= psn - one.first_psn < one.packets), None)
        if write is None:
            raise ScriptError(f"R1.10: PSN {psn} belongs to no write")
        start = (psn - write.first_psn) * MTU
        expected = {
            "msn": write.wr_id, "rqmsn": write.rqmsn, "address": start, "length": write.size, "pattern": 1, "icrc": 1,
            "size": min(MTU, write.size - start),
        }  # fmt: skip
        wrong = {name: fields[name] for name, value in expected.items() if fields[name] != value}
        if wrong:
            raise ScriptError(f"R1.10: PSN {psn} has {wrong}, and should have {expected}")
        if bool(fields["rtx"]) != (psn in self._transmitted):
            how = "again without RTX" if psn in self._transmitted else "for the first time with RTX"
            raise ScriptError(f"R2.14: PSN {psn} is sent {how}")
        if psn > self._acknowledged + MPR:
            raise ScriptError(f"R2.7: PSN {psn} is sent, and {self._acknowledged} was acknowledged")
        self._transmitted.add(psn)

    def _take(self, packet: Packet) -> None:
        """The packet is lost, trimmed, or arrives; then it may be acknowledged."""
        fields, rng = packet.fields, self._rng
        chance = rng.random()
        if chance < self._loss / 2:
            return
        of = {"echo": fields["ev"], "stamp": fields["stamp"], "of_psn": fields["psn"]}
        if chance < self._loss:
            self._send("nack", {**of, "reason": control.NACK_TRIMMED})
            return
        self._whole.add(fields["psn"])
        while self._cack + 1 in self._whole:
            self._cack += 1
        if fields["a"] or fields["rtx"] or rng.random() < 0.3:
            mark = control.MARK_SKIP_ONCE if rng.random() < 0.1 else control.MARK_NONE
            self._acknowledge({**of, "mark": mark})

    def _acknowledge(self, fields: Mapping[str, int]) -> None:
        """A SACK, and the transport ACK of what is whole."""
        bitmap = sum(1 << bit for bit in range(64) if self._cack + 1 + bit in self._whole)
        self._acknowledged = max(self._acknowledged, self._cack)
        self._send("sack", {**fields, "cack": self._cack, "bitmap": bitmap})
        messages = sum(write.first_psn + write.packets <= self._cack + 1 for write in self._writes)
        if messages:
            self._send("ack", {"messages": messages, "psn": self._cack})

    def _send(self, kind: str, fields: Mapping[str, int]) -> None:
        self._scene.send(kind, {**fields, "plane": self._rng.randrange(self._scene.planes)})
