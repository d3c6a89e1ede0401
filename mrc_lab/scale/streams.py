"""The data that NICs send, as arrays: who to whom, how much is left, at what rate, and what came of it.

A *stream* is all queue pairs of one MRC flow, which know the same of their paths, or one queue pair of RC. Counters are
fractions of packets here, since rates are; whoever reports them rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mrc_lab.scale.latency import Latency
from mrc_lab.scale.network import Booleans, Floats, Integers, Network
from topologies.ideal_completion import PacketSizes

SPRAYED = -1  # the plane of a stream that takes all, as MRC's do


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A stream to be. `source` and `destination` are numbers of NICs, `flow` that of the flow it is counted in.

    Its messages have `message` bytes, of which `outstanding` are under way on each of `qps` queue pairs. `plane` and
    `turn` are the path of a queue pair of RC (:mod:`network`), `back_turn` that of its acknowledgements; -1: none, both
    ends are below one T0.
    Streams of one `group` have one rate.
    """

    source: int
    destination: int
    flow: int
    group: int
    message: int
    outstanding: int
    qps: int = 1
    plane: int = SPRAYED
    turn: int = -1
    back_turn: int = -1


@dataclass(slots=True)
class Streams:
    """All streams of a run. Rates are b/s of payload, counters packets; `left` is bytes, infinite of an endless one.

    `line` is what a byte of payload takes of a link with all headers, `answer` what the acknowledgements of it take of
    the links back. `began` is when a stream last became active, ns.
    """

    source: Integers
    destination: Integers
    flow: Integers
    group: Integers
    qps: Integers
    plane: Integers
    turn: Integers
    back_turn: Integers
    packet: Floats
    line: Floats
    answer: Floats
    most: Floats
    active: Booleans = field(init=False)
    left: Floats = field(init=False)
    rate: Floats = field(init=False)
    arrived: Floats = field(init=False)  # bytes of payload
    sent: Floats = field(init=False)
    lost: Floats = field(init=False)
    repeated: Floats = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.source)
        self.active = np.zeros(count, dtype=bool)
        for name in ("left", "rate", "arrived", "sent", "lost", "repeated"):
            setattr(self, name, np.zeros(count))

    @classmethod
    def of(
        cls, specs: Sequence[StreamSpec], sizes: PacketSizes, per_answer: int, latency: Latency, network: Network
    ) -> Streams:
        """Streams whose packets have these `sizes`, one acknowledgement for `per_answer` bytes of payload or more.

        Once a message is complete another may follow it. A flow's queue pairs get out of step by themselves: some send
        while others wait for acknowledgements.
        """

        def numbers(name: str) -> Integers:
            return np.array([getattr(spec, name) for spec in specs], dtype=np.int64)

        message, plane = numbers("message"), numbers("plane")
        packets = -(-message // sizes.mtu)
        known = {size: _on_line(sizes, size) for size in set(message.tolist())}
        payload = np.minimum(sizes.mtu, message)
        answers = np.maximum(1, -(-per_answer // payload))  # packets to an acknowledgement
        line = np.array([known[size] for size in message.tolist()]) / message
        source, destination = numbers("source"), numbers("destination")
        access = network.access
        rates = np.minimum(*(_port(access, nic, plane) for nic in (source, destination)))
        common = ((access[source] > 0) & (access[destination] > 0)).sum(axis=1)
        ports = np.where(plane < 0, np.maximum(common, 1), 1)
        turns = -(-packets // ports)  # of all ports, until a message has left
        takes = turns * message / packets * 8e9 * line * ports / rates
        waits = latency.completions(network.turning_tier(network.rack[source], network.rack[destination]))
        return cls(
            source=source,
            destination=destination,
            flow=numbers("flow"),
            group=numbers("group"),
            qps=numbers("qps"),
            plane=plane,
            turn=numbers("turn"),
            back_turn=numbers("back_turn"),
            packet=message / packets,
            line=line,
            answer=sizes.answer / (answers * message / packets),
            most=message * numbers("qps") * numbers("outstanding") * 8e9 / (waits + takes),
        )

    def __len__(self) -> int:
        return len(self.source)

    def packets(self, which: Integers | slice = slice(None)) -> Floats:
        """Packets a second of each stream, or of some."""
        return self.rate[which] / (8 * self.packet[which])

    def lose(self, which: Integers, packets: Floats | float) -> None:
        """So many packets of some streams, which may be named several times, are lost and sent again."""
        payload = packets * self.packet[which]
        for counter in (self.lost, self.repeated, self.sent):
            np.add.at(counter, which, packets)
        np.subtract.at(self.arrived, which, payload)  # they took the time of others
        np.add.at(self.left, which, payload)


def _port(access: Floats, nic: Integers, plane: Integers) -> Floats:
    """What a stream's end can carry: all ports of its NIC, or the one of its plane."""
    found: Floats = np.where(plane < 0, access[nic].sum(axis=1), access[nic, plane])
    return found


def _on_line(sizes: PacketSizes, message: int) -> int:
    """Bytes on the line of all packets of a message."""
    full, rest = divmod(message, sizes.mtu)
    return full * sizes.frame(sizes.mtu) + (sizes.frame(rest) if rest else 0) + sizes.first
