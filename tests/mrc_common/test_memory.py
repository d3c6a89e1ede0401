from __future__ import annotations

from mrc_common.memory import available_memory, resident_memory


def test_a_process_has_less_memory_than_can_be_had_with_it():
    assert 1 << 20 < resident_memory() < available_memory() + resident_memory()


def test_memory_that_is_written_is_resident():
    before = resident_memory()
    kept = bytearray(b"x" * (64 << 20))
    assert resident_memory() - before > len(kept) // 2
