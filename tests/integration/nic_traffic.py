"""What a NIC has sent and received between two readings of its counters, and what those may be for known messages.

Lengths of frames are those of docs/protocol.md §1.1, without FCS, in SRv6 with timestamps: a data packet is its payload
and WRITE or IMMEDIATE, and an answer, a probe or an endpoint operation is a CONTROL frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mrc_host import verbs

WRITE, IMMEDIATE = 142, 146
CONTROL = (122, 154)  # a transport ACK, and a SACK
MTU = 4096


@dataclass(frozen=True)
class Reading:
    """Counters of a NIC, and of its ports by plane."""

    nic: Mapping[str, int]
    ports: tuple[Mapping[str, int], ...]

    @classmethod
    def take(cls, context: verbs.Context) -> Reading:
        """Read them now."""
        return cls(context.hw_counters(), context.port_counters())

    def port(self, name: str) -> list[int]:
        """One counter of each port."""
        return [port[name] for port in self.ports]


@dataclass(frozen=True)
class Traffic:
    """What was counted from `before` to `after`."""

    before: Reading
    after: Reading

    def __getitem__(self, name: str) -> int:
        """Of the NIC."""
        return self.after.nic[name] - self.before.nic[name]

    def by_plane(self, name: str) -> list[int]:
        """Of its ports."""
        return [now - then for now, then in zip(self.after.port(name), self.before.port(name), strict=True)]

    @property
    def control(self) -> int:
        """Frames that the NIC sent and that carried no data."""
        return self["tx_frames"] - self["tx_data_packets"] - self["tx_retransmitted_packets"]

    def assert_sent(self, data: int, smallest: int = MTU + WRITE) -> None:
        """All planes together carried `data`, the frames of known messages, what was sent again, and answers.

        `smallest` is the shortest frame with data. A byte less has gone another way, a byte more is nobody's.
        """
        again, (shortest, longest) = self["tx_retransmitted_packets"], CONTROL
        least = data + smallest * again + shortest * self.control
        most = data + (MTU + IMMEDIATE) * again + longest * self.control
        sent = self.by_plane("tx_bytes")
        assert least <= sum(sent) <= most, (least, sent, most)
        answered = self["rx_data_packets"] + self["duplicate_request"]
        counted = ("tx_sacks", "tx_acks", "tx_nacks", "tx_reliability_probes")
        assert self.control >= sum(self[name] for name in counted)
        assert self.control < answered + self["tx_data_packets"], "at most one for each packet of either direction"
