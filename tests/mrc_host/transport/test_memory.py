"""From keys to bytes, and every way not to get there."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.errors import InvalidArgumentError, NotFoundError
from mrc_host.transport.memory import MemoryTable
from mrc_host.verbs_types import Access

BOTH = Access.LOCAL_WRITE | Access.REMOTE_WRITE


def table() -> MemoryTable:
    return MemoryTable(random.Random(1))


def test_local_ranges_are_views_without_copies() -> None:
    memory, buffer = table(), bytearray(100)
    info = memory.register(3, memoryview(buffer), Access.LOCAL_WRITE)
    view = memory.local(3, info.lkey, info.address + 10, 20)
    assert view is not None
    view[:] = b"x" * 20
    assert buffer == bytes(10) + b"x" * 20 + bytes(70)


def test_buffers_of_any_item_size_are_treated_as_bytes() -> None:
    from array import array

    memory, buffer = table(), array("I", [0] * 10)
    info = memory.register(0, memoryview(buffer), BOTH)
    assert info.length == 40
    assert memory.remote(0, info.rkey, info.address, 40) is not None


@given(st.integers(-200, 300), st.integers(1, 300))
def test_region_bounds_are_exact(offset: int, length: int) -> None:
    memory = table()
    info = memory.register(0, memoryview(bytearray(100)), BOTH)
    inside = offset >= 0 and offset + length <= 100
    assert (memory.remote(0, info.rkey, info.address + offset, length) is not None) == inside
    assert (memory.local(0, info.lkey, info.address + offset, length) is not None) == inside


def test_keys_domains_and_access_rights_are_checked() -> None:
    memory = table()
    info = memory.register(0, memoryview(bytearray(100)), BOTH)
    closed = memory.register(0, memoryview(bytearray(100)), Access.LOCAL_WRITE)
    assert memory.remote(0, info.rkey ^ 1, info.address, 1) is None
    assert memory.remote(0, info.lkey, info.address, 1) is None
    assert memory.remote(1, info.rkey, info.address, 1) is None
    assert memory.remote(0, closed.rkey, closed.address, 1) is None
    assert memory.remote(0, info.rkey, closed.address, 1) is None
    assert memory.local(1, info.lkey, info.address, 1) is None
    assert memory.local(0, info.rkey, info.address, 1) is None


def test_chosen_addresses_need_no_alignment_and_may_overlap() -> None:
    memory, first, second = table(), bytearray(100), bytearray(200)
    one = memory.register(0, memoryview(first), BOTH, 0x7FFF_0000_1235)
    other = memory.register(0, memoryview(second), BOTH, 0x7FFF_0000_1230)
    assert (one.address, other.address) == (0x7FFF_0000_1235, 0x7FFF_0000_1230)
    for info, buffer in ((one, first), (other, second)):
        view = memory.local(0, info.lkey, info.address + 7, 1)
        assert view is not None
        view[0] = 9
        assert buffer.index(9) == 7
    memory.deregister(one.lkey)
    assert memory.remote(0, other.rkey, one.address, 100) is not None


@pytest.mark.parametrize("address", [0, 1, (1 << 64) - 100])
def test_a_region_may_be_anywhere_within_64_bits(address: int) -> None:
    memory = table()
    info = memory.register(0, memoryview(bytearray(100)), BOTH, address)
    assert memory.remote(0, info.rkey, address, 100) is not None
    assert memory.remote(0, info.rkey, address + 1, 100) is None
    assert memory.remote(0, info.rkey, address - 1, 1) is None


@pytest.mark.parametrize("address", [-1, (1 << 64) - 99, 1 << 64, 1 << 200])
def test_a_wrapping_region_is_refused_and_leaves_nothing(address: int) -> None:
    memory = table()
    before = memory.register(0, memoryview(bytearray(1)), BOTH).address
    with pytest.raises(InvalidArgumentError, match="within 64 bits"):
        memory.register(0, memoryview(bytearray(100)), BOTH, address)
    assert memory.register(0, memoryview(bytearray(1)), BOTH).address == before + 8192


def test_deregistered_memory_is_inaccessible_and_its_key_not_reused() -> None:
    memory = table()
    info = memory.register(0, memoryview(bytearray(100)), BOTH)
    region = memory.remote(0, info.rkey, info.address, 1)
    memory.deregister(info.lkey)
    assert region is not None
    assert region.view is None
    assert memory.remote(0, info.rkey, info.address, 1) is None
    with pytest.raises(NotFoundError):
        memory.deregister(info.lkey)
    assert memory.register(0, memoryview(bytearray(100)), BOTH).address != info.address
