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

class ReceiveState:
    """The receive state of an MRC queue pair (receive_state.h), known to its receiver until ``close``."""

    carries: bool
    """Whether the receiver places packets that need no decision; at first it does."""
    hashed: bool
    """Whether packets have no outer header, whatever the entropy format of the NIC; at first they have that."""
    in_order: bool
    """Whether a packet ahead of the expected one makes a SACK due; at first it does not."""
    units: int
    """Received bytes in units of 256, duplicates included; Python adds those."""
    trimmed_request: int
    """PSN of the newest trimmed packet with the A bit, -1 for none: each packet makes a SACK due till a newer came."""
    pending_bytes: int
    """Bytes that arrived since a SACK was due; Python sets it to 0 when another reason makes it queue one."""

    def __new__(
        cls, receiver: Receiver, qpn: int, source: bytes, first_psn: int, mtu: int, reach: int, threshold: int,
        planes: int, /,
    ) -> ReceiveState:  # fmt: skip
        """`source` is the peer's address, `reach` how many PSNs from the expected one on are accepted (1..32640)."""

    @property
    def first_psn(self) -> int:
        """First PSN of this life. PSNs are unbounded integers here (see ``wire.psn``)."""

    @property
    def next_psn(self) -> int:
        """The expected PSN: cumulative PSN + 1."""

    @property
    def max_psn(self) -> int:
        """The newest PSN that arrived; at first the one before `first_psn`."""

    @property
    def held_up(self) -> int:
        """Packets ahead of the expected one that came after the last one that was expected, retransmissions apart."""

    @property
    def arrived(self) -> int:
        """Packets that arrived for the first time."""

    @property
    def out_of_order(self) -> int:
        """Those of them that arrived ahead of others."""

    @property
    def unshown(self) -> bool:
        """Whether there are arrivals that no bitmap has shown."""

    def has(self, psn: int, /) -> bool:
        """Whether packet `psn`, ahead of the expected one, has arrived."""

    def add(self, psn: int, plane: int, size: int, units: int, word: int, marked: bool, /) -> bool:
        """A packet with `size` bytes of payload and this BTH control word has arrived; whether a SACK is due.

        `plane` is -1 if a SACK of its own will show it. ValueError if `psn` is out of reach or has arrived before.
        """

    def include(
        self, msn: int, first: int, last: int, region: Region, at: int, address: int, rkey: int, length: int, /
    ) -> None:
        """Packets `first` to `last` belong to a message whose first byte goes to offset `at` of its region.

        They may be placed from now on. The latest 16 messages are remembered.
        """

    def forget(self, msn: int, /) -> None:
        """Message `msn` is complete."""

    def show(self, again: int, oldest: bool, /) -> int:
        """First PSN of the bitmap of the SACK that leaves next; what it shows has then been shown.

        `again` is the PSN of the retransmission that the SACK answers, or -1; `oldest`: it begins at the expected PSN.
        """

    def sack(
        self, base: int, remote_qpn: int, psn: int, probe_id: int, mark: int, entropy: int, stamp: int, mpr: int,
        restore: bool, penalty: int, /,
    ) -> bytes:  # fmt: skip
        """A SACK from the BTH on, with a bitmap that begins at `base`; ValueError if that is before the expected PSN.

        It answers packet `psn`, or with a `probe_id` other than -1 a probe. What else is given are values of its fields
        (``wire.fields``).
        """

    def next_base(self, psn: int, everything: bool, /) -> int:
        """Where the next bitmap of a sweep begins: `psn` or later, and unless `everything` is to be shown, at a hole.

        -1 when there is none before the newest PSN.
        """

    def close(self) -> None:
        """The queue pair receives no more."""

class RcReceiveState:
    """The receive state of an RC queue pair (rc_receive_state.h), known to its receiver until ``close``."""

    carries: bool
    """Whether the receiver places packets in the middle of a message, and drops those behind gaps; at first it does."""
    gap: bool
    """Whether the peer was told that the expected packet is missing."""

    def __new__(cls, receiver: Receiver, qpn: int, source: bytes, first_psn: int, mtu: int, /) -> RcReceiveState:
        """`source` is the peer's address."""

    @property
    def next_psn(self) -> int:
        """The expected PSN, an unbounded integer (see ``wire.psn``)."""

    @property
    def at(self) -> int:
        """Where in its region the next byte of the message under way belongs."""

    @property
    def remaining(self) -> int:
        """How many bytes of that message are missing; 0: none is under way."""

    @property
    def arrived(self) -> int:
        """Packets that arrived and were placed."""

    @property
    def out_of_order(self) -> int:
        """Packets that were dropped for being ahead of the expected one."""

    def add(self, region: Region | None, at: int, remaining: int, /) -> None:
        """The expected packet has arrived. The next byte of its message goes to `at` of `region`, None at its end."""

    def drop_ahead(self) -> bool:
        """A packet ahead of the expected one was dropped; whether that is a gap of which the peer knows nothing."""

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
