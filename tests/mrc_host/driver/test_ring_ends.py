"""Rings that an application takes over from the process that made them."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from mrc_common.frame_rings import FrameRingError, FrameRings
from mrc_host.driver import ring_ends


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Of a NIC; nobody reads it."""
    return tmp_path / "h1.json"


def test_rings_that_are_offered_are_found_and_are_the_same(config: Path) -> None:
    with FrameRings(4096) as rings:
        near, far = rings.ends
        config.with_suffix(".rings").write_text(ring_ends.offered({"h1-eth0": near}))
        with ExitStack() as stack:
            (end,) = ring_ends.found(config, stack).values()
            assert end.receiving == near.receiving
            assert not set(end.descriptors) & set(near.descriptors), "copies, which may be closed"
            end.map()[5000:5003] = b"abc"
            assert far.map()[5000:5003] == b"abc"
            os.eventfd_write(end.other_bell, 1)
            assert os.eventfd_read(far.bell) == 1
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end.memory)
        near.map()


def test_a_fabric_without_rings_has_no_file(config: Path) -> None:
    with ExitStack() as stack:
        assert ring_ends.found(config, stack) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"pid": "one", "rings": {}}',
        '{"pid": 1}',
        '{"pid": 1, "rings": []}',
        '{"pid": 1e400, "rings": {}}',
        "{",
        '{"pid": null, "rings": {}}',
    ],
)
def test_a_file_that_says_something_else_is_refused(config: Path, text: str) -> None:
    config.with_suffix(".rings").write_text(text)
    with ExitStack() as stack, pytest.raises(FrameRingError, match=r"h1\.rings does not say who has the rings"):
        ring_ends.found(config, stack)


@pytest.mark.parametrize("descriptors", ["1,2", "-1,2,3,0", "1000000,1000001,1000002,0", "a,b,c,d"])
def test_descriptors_that_are_none_are_refused(config: Path, descriptors: str) -> None:
    offer = {"pid": os.getpid(), "rings": {"h1-eth0": descriptors}}
    config.with_suffix(".rings").write_text(json.dumps(offer))
    with ExitStack() as stack, pytest.raises(FrameRingError):
        ring_ends.found(config, stack)


def test_a_process_that_is_gone_gives_none(config: Path) -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    for pid in (child, 1 << 40):
        config.with_suffix(".rings").write_text(json.dumps({"pid": pid, "rings": {"h1-eth0": "1,2,3,0"}}))
        message = f"Process {pid}, the fabric's owner, does not give its rings"
        with ExitStack() as stack, pytest.raises(FrameRingError, match=message):
            ring_ends.found(config, stack)


def test_without_rings_nothing_has_to_be_compiled() -> None:
    assert ring_ends.opened({}) == {}
