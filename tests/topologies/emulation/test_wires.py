"""Who has which wires with `--wire ring`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mrc_common.frame_rings import RingEnd
from p4runtime_shim.config import load_file
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.emulation.errors import EmulationError
from topologies.emulation.run_directory import RunDirectory
from topologies.emulation.switch_kind import SwitchKind
from topologies.emulation.switches import commands
from topologies.emulation.wire_kind import WireKind
from topologies.emulation.wires import FabricWires
from topologies.fabric import LinkKind

FABRIC = multi_plane_clos("demo", planes=2, t0=2, t1=2, hosts=4)


def nic_ends(wires: FabricWires) -> dict[str, RingEnd]:
    """Those that are on the command lines of agents, by interface."""
    words = [word for nic in FABRIC.nics for word in wires.arguments(nic.name) if word != "--ring"]
    return {name: RingEnd.parse(numbers) for name, _, numbers in (word.partition("=") for word in words)}


@pytest.mark.parametrize("kind", [SwitchKind.EMBEDDED, SwitchKind.EMBEDDED_PER_PROCESS])
def test_every_link_has_a_wire_whose_ends_fit(tmp_path: Path, kind: SwitchKind) -> None:
    run = RunDirectory("demo", tmp_path)
    run.create()
    wires = FabricWires(FABRIC, kind, WireKind.RING)
    ends, joined = nic_ends(wires), set()
    for command in commands(FABRIC, run, kind, wires):
        settings = load_file(Path(command.argv[command.argv.index("--config") + 1]))
        assert settings.wires is not None
        assert settings.wires.counters == run.wire_counters(command.name)
        ends.update(settings.wires.rings)
        joined.update(settings.wires.joined)
        assert set(command.inherits) == {fd for end in settings.wires.rings.values() for fd in end.descriptors}
    for link in FABRIC.links:
        near, far = (addressing.interface_name(FABRIC, end) for end in (link.lower, link.upper))
        if kind is SwitchKind.EMBEDDED and link.kind is not LinkKind.NIC_T0:
            joined.remove((near, far))
            continue
        one, other = ends.pop(near), ends.pop(far)
        assert one.memory == other.memory
        assert os.fstat(one.bell) == os.fstat(other.other_bell)
        assert os.fstat(other.bell) == os.fstat(one.other_bell)
        assert one.receiving != other.receiving
    assert not ends
    assert not joined
    memory = nic_ends(wires).popitem()[1].memory
    wires.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(memory)


def test_without_rings_nothing_is_inherited(tmp_path: Path) -> None:
    run = RunDirectory("demo", tmp_path)
    run.create()
    (command,) = commands(FABRIC, run, SwitchKind.EMBEDDED)
    assert command.inherits == ()
    assert load_file(Path(command.argv[command.argv.index("--config") + 1])).wires is None
    assert FabricWires(FABRIC, SwitchKind.BMV2, WireKind.VETH).arguments("h1") == ()


def test_bmv2_has_no_rings() -> None:
    with pytest.raises(EmulationError, match="leave out --wire ring, or use embedded switches"):
        FabricWires(FABRIC, SwitchKind.BMV2, WireKind.RING)
