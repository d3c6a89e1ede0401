"""A device in the same process: its memory."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from mrc_host.nic import Nic
from mrc_host.verbs import Context
from mrc_host.verbs.local import LocalProvider
from tests.mrc_host.nic_world import make_config

MIB = 1 << 20


def context() -> Context:
    return Context(LocalProvider(Nic(make_config(0, 2, 2, 4), seed=1), lambda: 0))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_pages_of_large_memory_are_taken_when_they_are_used():
    with context() as device:
        before = resident()
        region = device.alloc_pd().alloc_mr(512 * MIB)
        assert resident() - before < 64 * MIB
        region.buffer[300 * MIB : 301 * MIB] = b"\1" * MIB
        assert bytes(region.buffer[300 * MIB - 1 : 300 * MIB + 1]) == b"\0\1"
        assert bytes(region.buffer[-4:]) == bytes(4)


@pytest.mark.parametrize("length", [1, MIB - 1, MIB, MIB + 1])
def test_memory_is_zero_writable_and_as_long_as_asked(length):
    with context() as device:
        region = device.alloc_pd().alloc_mr(length)
        assert region.buffer == bytes(length)
        region.buffer[:] = b"\7" * length
        assert region.buffer.nbytes == length
