"""One process runs a NIC."""

from __future__ import annotations

import subprocess
import uuid

import pytest

from mrc_common import children
from mrc_host.driver.nic_claim import NicClaim
from mrc_host.driver.packet_port import NicDriverError


def interface() -> str:
    """A name that no other test has: there need not be such an interface."""
    return uuid.uuid4().hex[:12]


def test_an_interface_is_claimed_once_until_it_is_released() -> None:
    one, other = interface(), interface()
    claim = NicClaim([one])
    with pytest.raises(NicDriverError, match=rf"^Another process runs the NIC at {one}: end it first\.$"):
        NicClaim([other, one])
    NicClaim([other]).close()  # whoever got only some has released these
    claim.close()
    claim.close()
    NicClaim([one]).close()


def test_a_process_that_is_killed_claims_nothing_any_more() -> None:
    name = interface()
    program = subprocess.Popen(
        [*children.python("tests.mrc_host.driver.hold_claim", name)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "claimed\n"
    with pytest.raises(NicDriverError):
        NicClaim([name])
    program.kill()
    program.communicate()
    NicClaim([name]).close()
