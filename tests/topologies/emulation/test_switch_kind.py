"""Kinds of switch: names of today and of earlier releases."""

import pytest

from topologies.emulation import switch_kind
from topologies.emulation.switch_kind import SwitchKind


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
