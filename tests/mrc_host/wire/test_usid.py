"""Addresses of paths agree with the template's own, for templates of every kind and any entropy value."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mrc_host.config import EvAddressField, UsidTemplate
from mrc_host.wire.usid import UsidAddresses

SHIFTS = st.integers(0, 90)
FIELDS = st.builds(EvAddressField, st.integers(0, 31), st.integers(1, 8), SHIFTS)
TEMPLATES = st.builds(
    UsidTemplate,
    base=st.integers(0, (1 << 120) - 1),
    plane_shifts=st.lists(SHIFTS, max_size=6).map(tuple),
    uplink_shift=st.none() | SHIFTS,
    ev_plane_shift=st.integers(0, 28),
    ev_plane_bits=st.integers(1, 4),
    ev_uplink_bits=st.integers(1, 12),
    fields=st.lists(FIELDS, max_size=2).map(tuple),
)


@given(TEMPLATES, st.lists(st.integers(0, 0xFFFFFFFF), min_size=1, max_size=20))
def test_planes_and_addresses_are_the_templates(template: UsidTemplate, evs: list[int]) -> None:
    addresses = UsidAddresses(template)
    for ev in evs:
        assert addresses.plane(ev) == template.plane(ev)
        assert addresses.of(ev) == template.address(ev)
