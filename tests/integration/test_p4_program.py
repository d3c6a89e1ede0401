"""Programs of a real fabric's switches: another from the start, exchanged under traffic, tables changed by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import p4src
from controller.errors import ControllerError
from mrc_lab.fabric.emulation import EmulatedWorld, running
from tests.integration.names import own
from tests.integration.test_controller import MRC, RATE, Traffic, transfer, until_ready
from topologies.clos import multi_plane_clos
from topologies.emulation import cleanup
from topologies.p4_program import MAIN, P4Program, fabric_program, read_program, saved_program

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

LOOKED_UP = "if (usid_local.apply().hit) {"
DROPPED = (
    f"{LOOKED_UP}\n            if (hdr.ipv6.dst[95:80] == 0x4001) {{ meta.drop_reason = DropReason.NO_USID; return; }}"
)
"""Each T0 drops what would go over the second T1 of its plane."""


def edited(folder: Path, file: str, before: str, after: str) -> P4Program:
    """The fabric's program with an edit of one file."""
    shutil.copytree(p4src.SOURCES, folder, ignore=shutil.ignore_patterns("build", "__pycache__"))
    text = (folder / file).read_text()
    assert text.count(before) == 1
    (folder / file).write_text(text.replace(before, after))
    return read_program(folder / MAIN)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedWorld]:
    """A fabric whose switches run an edited program."""
    name = own("program")
    program = edited(tmp_path_factory.mktemp("p4") / "edited", "usid.p4", LOOKED_UP, DROPPED)
    try:
        with running(multi_plane_clos(name, planes=2, t0=2, t1=2, hosts=4, rate_bps=RATE), program=program) as up:
            yield up
    finally:
        cleanup.clean(name, force=True)


def dropped(world: EmulatedWorld) -> int:
    """Packets whose next uSID no T0 has forwarded."""
    with world.controller() as client:
        counts = [count for switch in client.counters("t0-*") for count in switch.drops]
    return sum(count.packets for count in counts if count.name == "no uSID")


def test_an_edited_program_is_exchanged_under_traffic_and_no_byte_is_lost(world: EmulatedWorld) -> None:
    with transfer(world, "h1", "h3") as pair, Traffic(pair) as traffic:
        assert dropped(world) > 0, "the edit has no effect"
        with world.controller() as client:
            before = client.tables()
            client.load_program(fabric_program())
            after = client.tables()
        traffic.more()
        now = dropped(world)
        traffic.more()
        assert dropped(world) == now
        assert now > 0, "counters are kept"
    shapes = [[(table.name, table.present, table.expected) for table in switch.tables] for switch in before]
    assert [[(table.name, table.present, table.expected) for table in switch.tables] for switch in after] == shapes
    assert until_ready(world).ready
    assert saved_program(world.emulation.run.program).json == fabric_program().json


def test_a_program_that_the_entries_do_not_fit_is_refused_and_the_old_one_stays(
    world: EmulatedWorld, tmp_path: Path
) -> None:
    small = edited(tmp_path / "small", "sizes.p4", "USID_NEXT_SIZE = 2048", "USID_NEXT_SIZE = 1")
    runs = saved_program(world.emulation.run.program)
    with transfer(world, "h1", "h3") as pair, Traffic(pair) as traffic:
        refused = pytest.raises(ControllerError, match="keeps its program: the forwarding state cannot be kept")
        with world.controller() as client, refused:
            client.load_program(small)
        traffic.more()
    assert until_ready(world).ready
    assert saved_program(world.emulation.run.program) == runs


def test_tables_are_changed_at_the_prompt_and_the_change_survives_a_restart(world: EmulatedWorld) -> None:
    def says(command: str) -> str:
        words = [MRC, "shell", world.fabric.name, "-c", command]
        return subprocess.run(words, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout

    assert "entry added to table traffic_class of t0-0@p0, t0-1@p0" in says(
        "table add t0-*@p0 traffic_class set_priority 55 => 1"
    )
    for name in ("switches", "controller"):
        world.restart(name)
        until_ready(world)
    entries = json.loads(says("tables t0-0@p0 traffic_class --json"))
    assert [(entry["match"], entry["action"]) for entry in entries if entry["by_hand"] == "changed"] == [
        ("dscp=55", "set_priority(priority=1)")
    ]
    assert "2 changes by hand taken back" in says("table restore")
    assert "dscp=55" not in says("table dump t0-0@p0 traffic_class")
