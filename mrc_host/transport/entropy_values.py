"""The entropy values towards one peer, and the paths that they stand for (docs/protocol.md §3).

A queue pair has 128 to 256 entropy values [C], several to a path where there are fewer paths. Where packets carry a
uSID list, values whose lists are equal take the same links. Such a value has bits that no address is made from
(``UsidTemplate.spare_bits``): with these bits 0 it is the path's first value, the one in configurations, events and
denylists. Where switches hash, nobody knows which values share links, so each counts as a path of its own.

A *value* is a number too, its index here: that of its path, plus the number of paths for each one before it of the same
path. So the first value of each path has its path's index.
"""

from __future__ import annotations

from collections.abc import Sequence

from mrc_host.config import Destination, UsidTemplate
from mrc_host.transport.nic_context import NicContext


class EntropyValues:
    """Entropy values by index. `firsts` has the first of each path, and may become longer where each path has one."""

    __slots__ = ("_firsts", "_index_of", "_spare", "per_path", "spare_shift")

    def __init__(self, firsts: Sequence[int], index_of: dict[int, int], template: UsidTemplate, wanted: int) -> None:
        """`wanted` are to be used in all, if spare bits suffice; `index_of` has the path of each first value."""
        shift, bits = template.spare_bits
        self._firsts = firsts
        self._index_of = index_of
        self.spare_shift = shift
        self._spare = (1 << bits) - 1 << shift
        self.per_path = max(1, min(wanted // max(len(firsts), 1), 1 << bits))

    @classmethod
    def of(
        cls, nic: NicContext, destination: Destination, firsts: Sequence[int], index_of: dict[int, int]
    ) -> EntropyValues:
        """Those of a NIC towards a destination; only where packets carry uSID lists has a path more than one."""
        return cls(firsts, index_of, destination.template, nic.transport.entropy_values if nic.srv6 else 1)

    def __len__(self) -> int:
        return len(self._firsts) * self.per_path

    def __getitem__(self, value: int) -> int:
        """The entropy value, as packets carry it, with index `value`."""
        if self.per_path == 1:
            return self._firsts[value]
        paths = len(self._firsts)
        return self._firsts[value % paths] | value // paths << self.spare_shift

    def first(self, value: int) -> int:
        """The first value of the same path, which is the path's number."""
        return value % len(self._firsts)

    def path(self, ev: int) -> int:
        """The path that takes packets with this entropy value; -1 for none."""
        return self._index_of.get(ev & ~self._spare, -1)

    def index(self, ev: int) -> int:
        """The index of an entropy value; -1 if it is none of these."""
        if self.per_path == 1:
            return self._index_of.get(ev, -1)
        index = self._index_of.get(ev & ~self._spare, -1)
        number = (ev & self._spare) >> self.spare_shift
        return index + number * len(self._firsts) if index >= 0 and number < self.per_path else -1
