"""Nodes as Mininet's `dump` shows them."""

from __future__ import annotations

import pytest

pytest.importorskip("mininet")

from topologies.emulation.nodes import FabricSwitch


def test_a_switch_without_a_shell_has_no_process_id_to_show() -> None:
    shown = repr(FabricSwitch("t0-0@p0", device_id=1))
    assert shown.startswith("<FabricSwitch t0-0@p0:")
    assert "pid" not in shown
