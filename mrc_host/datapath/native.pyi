"""The types of ``native`` (native.c), with what the C files say about them."""

from typing import Literal

from typing_extensions import Buffer

from mrc_host.wire.encap import Drop, Flow

class Template:
    """What precedes the BTH of frames with one entropy value and class (template.h)."""

    def __new__(
        cls, ethernet: bytes, outer: bytes, segment: bytes, segments_left: int, source: bytes, destination: bytes,
        label: int, source_port: int, udp_port: int, dscp: int, ecn: int, hop_limit: int, /,
    ) -> Template:  # fmt: skip
        """`ethernet` is destination and source MAC address; `outer` is the destination of the outer header, or empty.

        `segment` is that of a Segment Routing Header, or empty. Addresses have 16 bytes; IPv4 packets, for addresses
        ::ffff:a.b.c.d, have neither `outer` nor `label`. ValueError if a value does not fit its field.
        """

    def with_entropy(self, label: int, udp_port: int, /) -> Template:
        """The template of the same class and path with another entropy value, as `Encapsulation.entropy` has it.

        ValueError if it does not fit the fields.
        """

class Outbox:
    """Where one NIC leaves data packets that are not copied, for the simulation's core (in_place.h)."""

    def __new__(cls) -> Outbox: ...
    def keep_payloads(self) -> None:
        """Give what is under way a copy of its payload, since the memory may change from now on."""

    def trace(self, on: bool, /) -> None:
        """Whether to leave nothing there, so that each frame can be traced."""

class Message:
    """What the packets of a request have in common, and its bytes, which must stay where they are (transmit.h)."""

    def __new__(
        cls, buffer: bytes | memoryview, qpn: int, tick: int, numbers: int, address: int, rkey: int, length: int,
        imm: int, solicited: int, outbox: Outbox, /,
    ) -> Message:  # fmt: skip
        """`numbers` are RQMSN and MSN, `solicited` the bit of BTH byte 1 for packets with immediate data.

        `length` is that of `buffer`, unless the bytes of the packets are given with each.
        """

class Region:
    """A registered buffer, for placement (region.h)."""

    def __new__(cls, buffer: memoryview, /) -> Region: ...
    def release(self) -> None:
        """Let go of the buffer: nothing is placed there any more."""

class Receiver:
    """Receives for one NIC (receive.h)."""

    def __new__(cls, ports: int, secret: int, /) -> Receiver:
        """`secret`, 64 bits, keeps peers from choosing prefixes with the same hash."""

    def expect(
        self, make: type[Flow], drops: tuple[Drop, ...], address: bytes, udp_port: int, high_in_port: bool,
        label_counts: bool, routed: bool, trimmed: int, heads: list[bytes], /,
    ) -> None:  # fmt: skip
        """What is in front of the BTH of frames for this NIC (prefixes.h), and how that is described.

        `drops` are those of its ``enum drop``. `high_in_port`: the UDP source port is the high half of an entropy
        value; `label_counts`: the flow label is the other half; `routed`: MRC packets have an outer header; `trimmed`
        is a mask of DSCPs; `heads` are MAC and the first six bytes of the outer destination of each port.
        """

    def receive(
        self, port: int, frame: bytes | memoryview, /
    ) -> Flow | Drop | tuple[int, int, int, Flow] | Literal[True]:
        """True: the frame was carried; its flow: prefix and ICRC are right, or it was trimmed; why it is dropped.

        QPN, PSN, timestamp and flow: it was carried, and makes an answer due.
        """

    def links(self, mask: int, /) -> None:
        """Ports that have a link; at first all have. For frames that come without Python (carry_frame.h)."""

    def unseen(self, port: int, /) -> tuple[int, int]:
        """Frames and bytes that the simulation's core gave to this without Python, and that were carried."""

    def trace(self, on: bool, /) -> None:
        """Whether to carry no packet, so that each can be traced."""

class Carrier:
    """Carries packets for one queue pair (carrier.h), known to its receiver until ``close``."""

    def __new__(
        cls, receiver: Receiver, qpn: int, source: bytes, mtu: int, reach: int, threshold: int, low: list[int],
        high: list[int], /,
    ) -> Carrier:  # fmt: skip
        """`low` and `high` are the acknowledgement generator's own: ``grant`` reads, ``take`` writes them."""

    def message(
        self, msn: int, first: int, last: int, region: Region, at: int, address: int, rkey: int, length: int, /
    ) -> None:
        """Packets `first` to `last` belong to a message whose first byte goes to offset `at` of its region."""

    def grant(
        self, next_msn: int, next_psn: int, bitmap: int, max_psn: int, ack_requested: int, pending: int, held_up: int, /
    ) -> None:
        """Carry packets from this state on; messages before `next_msn` are complete."""

    def take(self) -> tuple[int, int, int, int, int, int, int, int, int] | None:
        """End the grant. What was carried: packets, those out of order, units; then the state as it is now."""

    def sack(
        self, remote_qpn: int, flags: int, psn: int, probe_id: int, entropy: int, stamp: int, mpr: int,
        out_of_order: int, units: int, again: int, /,
    ) -> bytes | tuple[bytes, int, int, int, int, bool, int] | None:  # fmt: skip
        """A SACK from the BTH on, for what is granted and was carried (sack.h); the grant goes on.

        With it, if one bitmap does not reach the newest PSN: first PSN of the bitmap, expected and newest PSN, packets
        ahead of the expected one, whether arrivals are left to be shown, and packets carried.
        """

    def next_base(self, psn: int, everything: bool, /) -> int | None:
        """Where the next bitmap of a sweep begins, `psn` or later; -1 at its end, None if nothing is granted."""

    def sweep_sack(self, base: int, remote_qpn: int, entropy: int, mpr: int, out_of_order: int, units: int, /) -> bytes:
        """A SACK that answers no packet, with a bitmap from `base` on; the grant goes on."""

    def close(self) -> None:
        """The queue pair receives no more."""

class RcCarrier:
    """Carries packets for one RC queue pair (rc_carrier.h), known to its receiver until ``close``."""

    def __new__(cls, receiver: Receiver, qpn: int, source: bytes, mtu: int, /) -> RcCarrier: ...
    def grant(self, psn: int, region: Region, at: int, remaining: int, /) -> None:
        """Place packets of a message from `psn` on: the next byte belongs to offset `at` of its region."""

    def drop_behind(self, psn: int, /) -> None:
        """Packet `psn` is missing, which was reported: drop packets behind it until it arrives."""

    def carried(self) -> int:
        """Packets placed since the grant."""

    def take(self) -> int:
        """The same, and end the grant, whichever it was."""

    def take_dropped(self) -> int:
        """Packets dropped behind gaps since the last call."""

    def close(self) -> None:
        """The queue pair receives no more."""

carry_frame: object
"""A capsule with what the simulation's core calls (mrc_common/carry_frame.h)."""

def data_frame(template: Template, message: Message, head: int, part: int, payload: Buffer = ..., /) -> bytes:
    """The frame of a part of a message, or bytes of its length if it was left in the outbox; ValueError beyond its end.

    Its bytes are `payload` if that is given.

    `head` is the BTH's control word, its timestamp from bit 32 on, and the kind of segment from bit 48 on; `part` its
    size in bytes, and from bit 16 on its offset: two numbers to hand over are faster than five.
    """

def rc_data_frame(template: Template, message: Message, head: int, part: int, payload: Buffer = ..., /) -> bytes:
    """The same of an RC queue pair, which has no timestamps."""

def frame(template: Template, body: bytes, /) -> bytes:
    """The frame of a packet with these bytes from the BTH on."""

def read_prefix(frame: Buffer, /) -> tuple[int, int, int, int, bytes, bytes] | None:
    """Of a frame for anybody: offsets of inner IP header and BTH, UDP source port, low 16 bits of the flow label.

    Then source and destination of the inner packet. None if the frame has no such headers.
    """

def icrc(headers: bytes, body: bytes, /) -> int:
    """The ICRC of a packet with these IP and UDP headers, and these bytes from the BTH on (icrc.h).

    ValueError if they are not 28 or 48, and 12 or more.
    """

def crc32(data: Buffer, crc: int = 0, /) -> int:
    """As zlib's, for a `crc` of 32 bits."""

def copy_and_crc32(target: Buffer, source: Buffer, crc: int = 0, /) -> int:
    """Copy all of `source` to the beginning of `target`, which is elsewhere; the CRC of what was copied.

    ValueError if `target` is shorter.
    """

def crc32_with(most: int, data: bytes, crc: int, /) -> tuple[int, int, bytes]:
    """For tests: the CRC, the same, calculated while `data` is copied; and the copy.

    Of what the processor can, one instruction multiplies at most `most` blocks of 128 bits: 0 (only the table is
    used), 1, 2 or, with 3, four.
    """
