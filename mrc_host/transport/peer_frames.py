"""Frames to one NIC: all bytes before the BTH depend only on entropy value, class and length, and are built once.

The datapath in C has a template for each entropy value and class, which fits all lengths (``mrc_host.datapath``). It is
derived from another when it is first used: from that of its path's first value, where only the bytes of the value
differ, or that from the first of its class. Without the datapath there is a prefix for each length, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrc_host.checksum import crc32
from mrc_host.config import Destination, EvFormat
from mrc_host.transport.entropy_values import EntropyValues
from mrc_host.transport.nic_context import NicContext
from mrc_host.wire import icrc
from mrc_host.wire.encap import ECT0
from mrc_host.wire.usid import UsidAddresses

if TYPE_CHECKING:
    from mrc_host.datapath import native

DATA: Final = 0
RETRANSMISSION: Final = 1
CONTROL: Final = 2
NO_TRIM: Final = 3  # data class, but not to be trimmed: probes, and data for peers that do not answer trims
_CLASSES: Final = 4

_crc32: Final = crc32
_pack_trailer: Final = icrc.pack_trailer
_MAX_PREFIXES: Final = 4096


class PeerFrames:
    """Those to one destination, by the index of their entropy value among `evs`, which may become more."""

    __slots__ = (
        "_addresses",
        "_destination",
        "_evs",
        "_first_templates",
        "_nic",
        "_prefixes",
        "_repeats_path",
        "_templates",
    )

    def __init__(self, nic: NicContext, destination: Destination, evs: EntropyValues) -> None:
        self._nic = nic
        self._destination = destination
        self._evs = evs
        self._addresses = UsidAddresses(destination.template)
        # A Segment Routing Header may repeat the path: then no template can be derived from another.
        self._repeats_path = nic.settings.ev_format is EvFormat.SRV6_SRH
        self._prefixes: dict[int, tuple[bytes, int, int]] = {}
        self._templates: list[list[native.Template | None]] = [[] for _ in range(_CLASSES)]  # by class and value
        self._first_templates: dict[int, native.Template] = {}  # by class

    def prefix(self, index: int, kind: int, body: int) -> tuple[bytes, int, int]:
        """Bytes before the BTH, ICRC seed and mask constant of a frame with value `index` and `body` bytes after."""
        key = index << 20 | kind << 16 | body
        known = self._prefixes.get(key)
        return known if known is not None else self._make_prefix(key, index, kind, body)

    def template(self, index: int, kind: int) -> native.Template:
        """The same for the datapath in C: one for all lengths."""
        templates = self._templates[kind]
        known = templates[index] if index < len(templates) else None
        return known if known is not None else self._make_template(index, kind)

    def frame(self, index: int, kind: int, body: bytes) -> bytes:
        """A whole frame without payload."""
        datapath = self._nic.datapath
        if datapath is not None:
            made: bytes = datapath.frame(self.template(index, kind), body)
            return made
        head, seed, mask = self.prefix(index, kind, len(body))
        return b"".join((head, body, _pack_trailer(_crc32(body, seed) ^ mask)))

    def _make_template(self, index: int, kind: int) -> native.Template:
        datapath = self._nic.datapath
        assert datapath is not None
        same_path = self._evs.first(index)
        if same_path != index:
            label, udp_port = self._nic.encapsulation.entropy(self._evs[index])
            made: native.Template = self.template(same_path, kind).with_entropy(label, udp_port)
        elif kind in self._first_templates and not self._repeats_path:
            varying = self._nic.encapsulation.varying(self._addresses, self._evs[index])
            made = self._first_templates[kind].on_path(*varying)
        else:
            head, _seed = self._build_prefix(index, kind, 0)
            made = datapath.template(head, 0)
            self._first_templates[kind] = made
        templates = self._templates[kind]
        if index >= len(templates):
            templates += [None] * (len(self._evs) - len(templates))
        templates[index] = made
        return made

    def _make_prefix(self, key: int, index: int, kind: int, body: int) -> tuple[bytes, int, int]:
        head, seed = self._build_prefix(index, kind, body)
        made = (head, seed, icrc.mask_constant(body))
        if len(self._prefixes) >= _MAX_PREFIXES:
            self._prefixes.clear()
        self._prefixes[key] = made
        return made

    def _build_prefix(self, index: int, kind: int, body: int) -> tuple[bytes, int]:
        dscp = self._nic.settings.dscp
        role = (dscp.trimmable, dscp.retransmit, dscp.control, dscp.no_trim)[kind]
        ecn = 0 if kind == CONTROL else ECT0
        template, ev = self._destination.template, self._evs[index]
        address = self._destination.address
        return self._nic.encapsulation.path(template.plane(ev), template, address, ev, role, ecn, body)
