"""Frames to one NIC: all bytes before the BTH depend only on entropy value, class and length, and are built once.

The datapath has a template for each entropy value and class, which fits all lengths (``mrc_host.datapath``). It is made
when it is first used; that of a path's further values comes from that of its first, where only the bytes of the value
differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from mypy_extensions import trait

from mrc_host.config import Destination
from mrc_host.transport.entropy_values import EntropyValues
from mrc_host.transport.nic_context import NicContext
from mrc_host.wire.encap import ECT0
from mrc_host.wire.usid import UsidAddresses

if TYPE_CHECKING:
    from mrc_host.datapath import native

DATA: Final = 0
RETRANSMISSION: Final = 1
CONTROL: Final = 2
NO_TRIM: Final = 3  # data class, but not to be trimmed: probes, and data for peers that do not answer trims
_CLASSES: Final = 4


@trait
class FrameTemplates(ABC):
    """What precedes the BTH of frames to one NIC."""

    __slots__ = ()

    @abstractmethod
    def template(self, index: int, kind: int) -> native.Template:
        """That of frames of class `kind` with entropy value number `index`."""


class PeerFrames(FrameTemplates):
    """Those to one destination, by the index of their entropy value among `evs`, which may become more."""

    __slots__ = ("_addresses", "_destination", "_evs", "_nic", "_templates")

    def __init__(self, nic: NicContext, destination: Destination, evs: EntropyValues) -> None:
        self._nic = nic
        self._destination = destination
        self._evs = evs
        self._addresses = UsidAddresses(destination.template)
        self._templates: list[list[native.Template | None]] = [[] for _ in range(_CLASSES)]  # by class and value

    def template(self, index: int, kind: int) -> native.Template:
        """What precedes the BTH of frames with value `index`."""
        templates = self._templates[kind]
        known = templates[index] if index < len(templates) else None
        return known if known is not None else self._make_template(index, kind)

    def frame(self, index: int, kind: int, body: bytes) -> bytes:
        """A whole frame without payload."""
        made: bytes = self._nic.datapath.frame(self.template(index, kind), body)
        return made

    def _make_template(self, index: int, kind: int) -> native.Template:
        same_path = self._evs.first(index)
        if same_path == index:
            made = self._path_template(self._evs[index], kind)
        else:
            label, udp_port = self._nic.encapsulation.entropy(self._evs[index])
            made = self.template(same_path, kind).with_entropy(label, udp_port)
        templates = self._templates[kind]
        if index >= len(templates):
            templates += [None] * (len(self._evs) - len(templates))
        templates[index] = made
        return made

    def _path_template(self, ev: int, kind: int) -> native.Template:
        dscp = self._nic.settings.dscp
        role = (dscp.trimmable, dscp.retransmit, dscp.control, dscp.no_trim)[kind]
        ecn = 0 if kind == CONTROL else ECT0
        addresses, destination = self._addresses, self._destination
        outer = addresses.of(ev) if self._nic.srv6 else b""
        return self._nic.encapsulation.path(
            addresses.plane(ev), destination.template, outer, destination.address, ev, role, ecn
        )
