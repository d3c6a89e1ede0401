"""Outer addresses of the paths to one destination: the uSID list of each entropy value, as ``UsidTemplate`` defines it.

The same as the template's own methods, which are plain Python: a NIC needs an address for each path to each peer, and
for each class of packets.
"""

from __future__ import annotations

from mrc_host.config import UsidTemplate


class UsidAddresses:
    """Those of a template. What a plane adds is summed up once."""

    __slots__ = ("_by_plane", "_fields", "_plane_mask", "_plane_shift", "_template", "_uplink_mask", "_uplink_shift")

    def __init__(self, template: UsidTemplate) -> None:
        self._template = template
        self._by_plane: dict[int, int] = {}  # the address with uplink 0, and 0 in all other fields
        self._plane_shift = template.ev_plane_shift
        self._plane_mask = (1 << template.ev_plane_bits) - 1
        self._uplink_shift = -1 if template.uplink_shift is None else template.uplink_shift
        self._uplink_mask = (1 << template.ev_uplink_bits) - 1
        self._fields = [((1 << one.bits) - 1, one.ev_shift, one.shift) for one in template.fields]

    def plane(self, ev: int) -> int:
        """Plane of an entropy value."""
        return ev >> self._plane_shift & self._plane_mask

    def of(self, ev: int) -> bytes:
        """Outer IPv6 destination (16 bytes) of the path that `ev` names."""
        plane = self.plane(ev)
        value = self._by_plane.get(plane)
        if value is None:
            value = self._by_plane[plane] = self._of_plane(plane)
        if self._uplink_shift >= 0:
            value += (ev & self._uplink_mask) << self._uplink_shift
        for mask, ev_shift, shift in self._fields:
            value += (ev >> ev_shift & mask) << shift
        return value.to_bytes(16, "big")

    def _of_plane(self, plane: int) -> int:
        value = self._template.base
        for shift in self._template.plane_shifts:
            value += plane << shift
        return value
