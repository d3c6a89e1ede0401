"""The other end of a connection, written out by hand: it builds every packet and reads every answer of one NIC.

With it a test sends exactly the packets it wants in the order it wants, valid or not, and sees what the NIC makes of
them, without a second NIC getting in the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mrc_host.config import ProtocolSettings, TransportSettings
from mrc_host.nic import Nic
from mrc_host.transport.algorithms import Algorithm
from mrc_host.transport.peer import Peer
from mrc_host.verbs_types import Completion, QpAddress, QpAttributes, QpType, WorkRequest, WrOpcode
from mrc_host.wire import control, headers, opcodes
from mrc_host.wire.psn import MASK
from tests.models import frames
from tests.models.frames import SRV6_PREFIX
from tests.mrc_host.nic_world import ALL_RIGHTS, BLOCK, MS, US, address, make_config, nic_usid, peers, queue_pair

FAR_QPN = 0x4242
FIRST_OUT = 1000  # first PSN the NIC sends
FIRST_IN = 5000  # first PSN it expects
UNITS = 17  # of 256 bytes, that a packet of 4096 bytes counts: 8 + 12 + 4 + 4 + 16 + 4096 + 4 + 40 = 4184
WIDE = QpAttributes(congestion_window=1 << 30)


@dataclass
class Packet:
    """One packet the NIC sent."""

    port: int
    frame: bytes
    time: int

    @property
    def opcode(self) -> int:
        return self.frame[SRV6_PREFIX]

    @property
    def body(self) -> bytes:
        return self.frame[SRV6_PREFIX:-4]

    @property
    def psn(self) -> int:
        return int.from_bytes(self.body[9:12], "big")

    @property
    def word(self) -> int:
        return int.from_bytes(self.body[8:12], "big")

    @property
    def rtx(self) -> bool:
        return bool(self.word & headers.RTX)

    @property
    def ack_requested(self) -> bool:
        return bool(self.word & headers.ACK_REQUEST)

    @property
    def ev(self) -> int:
        return int.from_bytes(self.frame[94:96], "big")

    @property
    def dscp(self) -> int:
        return int.from_bytes(self.frame[14:16], "big") >> 6 & 63

    @property
    def stamp(self) -> int:
        return int.from_bytes(self.body[16:18], "big")

    @property
    def msn(self) -> int:
        return int.from_bytes(self.body[14:16], "big")

    @property
    def sack(self) -> control.Sack:
        return control.parse_sack(self.body, 12)

    @property
    def nack(self) -> control.Nack:
        return control.parse_nack(self.body, 12)

    @property
    def aeth(self) -> tuple[int, int]:
        """Syndrome and message count."""
        return self.body[12], int.from_bytes(self.body[13:16], "big")


def data(packets: list[Packet]) -> list[Packet]:
    """Those with data."""
    return [p for p in packets if p.opcode <= opcodes.WRITE_ONLY_IMM]


class FarEnd:
    """NIC 0 under test, and its peer played by the test."""

    def __init__(
        self,
        *,
        planes: int = 2,
        uplinks: int = 4,
        attributes: QpAttributes | None = None,
        transport: TransportSettings | None = None,
        settings: ProtocolSettings | None = None,
        capacity: int = 1024,
        size: int = 1 << 18,
        congestion: Mapping[str, Algorithm] | None = None,
    ) -> None:
        self.now = 10 * MS
        self._probe_stamps: dict[int, int] = {}  # by number
        self.planes = planes
        self.nic = Nic(make_config(0, 2, planes, uplinks, transport, settings), seed=3, congestion=congestion)
        self.config = make_config(1, 2, planes, uplinks)
        self.buffer = bytearray(size)
        self.region = self.nic.register_memory(0, memoryview(self.buffer), ALL_RIGHTS)
        self.cq = self.nic.create_cq(capacity)
        given = attributes or QpAttributes()
        self.attributes = QpAttributes(
            **{
                **{name: getattr(given, name) for name in given.__dataclass_fields__},
                "send_psn": FIRST_OUT if given.send_psn is None else given.send_psn,
                "receive_psn": FIRST_IN if given.receive_psn is None else given.receive_psn,
            }
        )
        self.qpn = self.nic.create_qp(0, QpType.MRC, self.cq, self.cq, self.attributes)
        self.nic.connect_qp(self.qpn, QpAddress(address(1), FAR_QPN), self.now)
        self.units = 0  # received, by the last SACK
        self._newest = -1  # PSN of the newest data packet, counted from FIRST_OUT
        self.drain()

    @property
    def qp(self) -> Any:
        """What no packet shows."""
        return queue_pair(self.nic, self.qpn)

    @property
    def peer(self) -> Peer:
        """What the NIC keeps of us."""
        (peer,) = peers(self.nic)
        return peer

    # ---- from the NIC ----

    def drain(self, limit: int = 10_000, ports: tuple[int, ...] | None = None) -> list[Packet]:
        """Everything the NIC wants to send now, port by port in turn."""
        out: list[Packet] = []
        wanted = ports if ports is not None else tuple(range(self.planes))
        while len(out) < limit:
            before = len(out)
            for port in wanted:
                frame = self.nic.transmit(port, self.now)
                if frame is not None:
                    packet = Packet(port, frame, self.now)
                    out.append(packet)
                    if packet.opcode == opcodes.PROBE:
                        asked = control.parse_probe(packet.body, 12)
                        self._probe_stamps[asked.probe_id] = asked.timestamp
                    if packet.opcode <= opcodes.WRITE_ONLY_IMM:
                        self._newest = max(self._newest, (packet.psn - FIRST_OUT) & MASK)
                if len(out) >= limit:
                    break
            if len(out) == before:
                due = self.nic.wakeup()
                if due is None or due > self.now:
                    break
                self.nic.tick(self.now)
        return out

    def data(self, limit: int = 10_000, ports: tuple[int, ...] | None = None) -> list[Packet]:
        """Data packets only."""
        return data(self.drain(limit, ports))

    def only(self, opcode: int) -> list[Packet]:
        """Packets of one opcode."""
        return [p for p in self.drain() if p.opcode == opcode]

    def wait(self, duration: int) -> list[Packet]:
        """Let time pass from wake-up to wake-up; everything that was sent meanwhile."""
        end = self.now + duration
        out = self.drain()
        while True:
            due = self.nic.wakeup()
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.nic.tick(self.now)
            out += self.drain()
        self.now = end
        return out

    def poll(self) -> list[Completion]:
        return self.nic.poll_cq(self.cq, 1000, self.now)

    def write(self, length: int, imm: int | None = None, wr_id: int = 1, signaled: bool = True) -> None:
        """Post a write of the NIC."""
        opcode = WrOpcode.WRITE if imm is None else WrOpcode.WRITE_WITH_IMM
        request = WorkRequest(
            wr_id, opcode, self.region.address, self.region.lkey, length, 0x10000, 0x77, imm, signaled
        )
        self.nic.post_send(self.qpn, request, self.now)

    # ---- to the NIC ----

    def send(
        self, body: bytes, *, plane: int = 0, ev: int | None = None, dscp: int = 0, ecn: int = 2, cut: int | None = None
    ) -> None:
        """One packet, given from the BTH to the payload; `cut` trims the frame to that many bytes."""
        outer = BLOCK.to_bytes(4, "big") + nic_usid(plane, 0).to_bytes(2, "big") + bytes(10)
        path = plane << 10 if ev is None else ev
        label, sport = path >> 16, path & 0xFFFF
        sent = frames.assemble(self.config, plane, outer, None, address(0), label, sport, dscp, ecn, body)
        frame = bytes((2, 0, 0, 0, 0, plane)) + sent[6:]
        self.nic.receive(plane, frame if cut is None else frame[: SRV6_PREFIX + cut], self.now)

    def segment(
        self,
        psn: int,
        kind: int = opcodes.ONLY,
        *,
        msn: int = 0,
        offset: int = 0,
        length: int = 1000,
        size: int | None = None,
        imm: int | None = None,
        rqmsn: int = 0,
        flags: int = 0,
        rkey: int | None = None,
        fill: int = 0x55,
        stamp: int = 0x1234,
        timestamped: bool = True,
        bth_flags: int = 0,
        **how: int,
    ) -> None:
        """A data packet; PSN counted from FIRST_IN. `offset` is that of this packet in the region."""
        payload = bytes([fill]) * (length if size is None else size)
        pad = -len(payload) & 3
        word = (FIRST_IN + psn) & MASK | flags
        bth = (opcodes.WRITE_FIRST + kind, pad << 4 | bth_flags, headers.PKEY, self.qpn)
        meth = (rqmsn, msn)
        reth = (self.region.address + offset, self.region.rkey if rkey is None else rkey, length)
        tail = () if imm is None else (imm,)
        if timestamped:
            layout = headers.data_ts if imm is None else headers.data_ts_imm
            head = layout.pack(*bth, word | headers.TS_PRESENT, *meth, stamp, headers.TS_TICK_1US, *reth, *tail)
        else:
            layout = headers.data_plain if imm is None else headers.data_plain_imm
            head = layout.pack(*bth, word, *meth, *reth, *tail)
        self.send(head + payload + bytes(pad), **how)  # type: ignore[arg-type]

    def sack(
        self,
        cack: int,
        bits: int = 0,
        *,
        base: int = 1,
        of: Packet | None = None,
        mark: int = 0,
        probe: int | None = None,
        units: int | None = None,
        penalty: int = 0,
        restore: bool = False,
    ) -> None:
        """A SACK; `cack` counts PSNs from FIRST_OUT (-1: nothing yet), bit i of `bits` is cack + base + i."""
        self.units = self.units + 1 if units is None else units
        psn = (FIRST_OUT + cack) & MASK
        offset = 0 if of is None else of.psn - FIRST_OUT - cack
        stamp = 0 if of is None else of.stamp
        if probe is not None:
            stamp = self._probe_stamps.get(probe, 0)
        sack = control.Sack(
            mark=mark, probe=probe is not None, ack_offset=offset if probe is None else probe,
            entropy=0xFFFFFFFF if of is None else of.ev, cack_psn=psn, bitmap_offset=base, bitmap=bits,
            timestamp=stamp, restore_cwnd=restore, cwnd_penalty=penalty, rcvd_units=self.units,
        )  # fmt: skip
        self.send(control.pack_sack(self.qpn, sack), dscp=46, ecn=0)

    def nack(self, packet: Packet, reason: int) -> None:
        """A NACK of one packet the NIC sent."""
        nack = control.Nack(reason, packet.ev, 0, 0, packet.psn, packet.stamp)
        self.send(control.pack_nack(self.qpn, nack), dscp=46, ecn=0)

    def ack(self, messages: int, syndrome: int = headers.SYNDROME_ACK, cack: int | None = None) -> None:
        """A transport ACK or NAK. `cack` is as in a SACK, by default the newest that the NIC sent."""
        psn = self._newest if cack is None else cack
        psn += FIRST_OUT + (syndrome != headers.SYNDROME_ACK)
        body = headers.pack_aeth(opcodes.TRANSPORT_ACK, self.qpn, psn & MASK, syndrome, messages)
        self.send(body, dscp=46, ecn=0)

    def probe(self, probe_id: int, **how: int) -> None:
        """A reliability probe."""
        self.send(control.pack_probe(self.qpn, control.Probe(probe_id, 0, 0, 7)), **how)  # type: ignore[arg-type]

    def pass_time(self, duration: int = 20 * US) -> None:
        """Move the clock without waking the NIC."""
        self.now += duration


def counters(end: FarEnd) -> tuple[int, int, int]:
    """Lost, retransmitted, timeouts."""
    c = end.nic.qp_counters(end.qpn)
    return c.lost, c.retransmitted, c.timeouts


def flight(end: FarEnd, count: int = 32, gap: int = 2 * US) -> list[Packet]:
    """Packets sent one by one, with time between them, in PSN order."""
    end.write(count * 4096)
    out: list[Packet] = []
    while len(out) < count:
        out += [p for p in end.drain(1, ports=(len(out) % end.planes,)) if p.opcode < 0xD0]
        end.pass_time(gap)
    return sorted(out, key=lambda p: p.psn)


def bits(psns: list[int], base: int) -> int:
    """The bitmap of a SACK that starts at `base` and shows these PSNs."""
    return sum(1 << n - base for n in psns if n >= base)


def warm(end: FarEnd, rtt: int = 20 * US) -> None:
    """One acknowledged message on each plane, so that round-trip times are known."""
    end.write(4 * 4096)
    sent = sorted(end.data(), key=lambda p: p.psn)
    end.pass_time(rtt)
    for p in sent:
        end.sack(p.psn - FIRST_OUT, of=p, units=UNITS * (p.psn - FIRST_OUT + 1))
    end.ack(1)
    assert len(end.poll()) == 1
