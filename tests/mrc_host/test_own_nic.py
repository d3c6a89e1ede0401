"""What an application's own NIC says where it cannot have its rings; tests/integration/test_own_nic.py has the rest."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from mrc_common.frame_rings import FrameRings
from mrc_host import own_nic
from mrc_host.driver import ring_ends
from mrc_host.driver.packet import NicDriverError

WHY = "Too late to use the compiled transport: mrc_host.nic was imported before."


def test_rings_need_the_compiled_transport_and_the_reason_why_it_is_not_used_is_given(tmp_path: Path) -> None:
    config = tmp_path / "h1.json"
    with FrameRings(4096) as rings, ExitStack() as stack:
        config.with_suffix(".rings").write_text(ring_ends.offered({"h1-eth0": rings.ends[0]}))
        with pytest.raises(NicDriverError, match=f"Rings need the compiled transport. {WHY}"):
            own_nic._rings(config, stack, WHY)


def test_a_fabric_without_rings_needs_no_compiled_transport(tmp_path: Path) -> None:
    with ExitStack() as stack:
        assert own_nic._rings(tmp_path / "h1.json", stack, WHY) == {}


def test_rings_that_are_gone_are_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "h1.rings").write_text("{}")
    with (
        ExitStack() as stack,
        pytest.raises(NicDriverError, match=r"h1\.rings does not say who has the rings \(.*\)\.$"),
    ):
        own_nic._rings(tmp_path / "h1.json", stack, "")
