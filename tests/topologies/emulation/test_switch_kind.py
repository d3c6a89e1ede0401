"""Kinds of switch: names of today and of earlier releases."""

import pytest

from topologies.clos import multi_plane_clos
from topologies.emulation import switch_kind
from topologies.emulation.errors import EmulationError
from topologies.emulation.switch_kind import SwitchKind, SwitchSelection


def test_the_default_is_a_valid_kind():
    assert SwitchKind(switch_kind.DEFAULT) is SwitchKind.EMBEDDED


@pytest.mark.parametrize(
    ("old", "kind"), [("shim", SwitchKind.EMBEDDED), ("shim-each", SwitchKind.EMBEDDED_PER_PROCESS)]
)
def test_old_names_map_to_the_same_kind(old, kind):
    assert SwitchKind(old) is kind


@pytest.mark.parametrize("name", ["ovs", "", None])
def test_unknown_kinds_are_refused(name):
    with pytest.raises(ValueError, match="is not a valid SwitchKind"):
        SwitchKind(name)


@pytest.mark.parametrize(
    ("text", "program", "kernel"),
    [
        ("bmv2", SwitchKind.BMV2, ()),
        ("shim-each", SwitchKind.EMBEDDED_PER_PROCESS, ()),
        ("kernel", SwitchKind.EMBEDDED, ("*",)),
        ("embedded,t1-0@p0=kernel,t0-*@p1=kernel", SwitchKind.EMBEDDED, ("t1-0@p0", "t0-*@p1")),
        ("t1-0@p0=kernel", SwitchKind.EMBEDDED, ("t1-0@p0",)),
        ("kernel,bmv2", SwitchKind.BMV2, ()),  # the later one is for all
    ],
)
def test_words_select_switches(text, program, kernel):
    assert SwitchSelection.parse(text) == SwitchSelection(program, kernel)


@pytest.mark.parametrize("text", ["ovs", "", "t1-0@p0=ovs", "t1-0@p0=bmv2", "=kernel", "t1-0@p0=", "embedded,"])
def test_words_that_select_nothing_are_refused(text):
    with pytest.raises(EmulationError, match=r"There is no switch|can only be the kernel's"):
        SwitchSelection.parse(text)


def test_a_selection_is_applied_to_a_fabric():
    fabric = SwitchSelection.parse("kernel").applied(multi_plane_clos(planes=1))
    assert fabric.kernel_switches == fabric.switches
