"""``python -m tests.mrc_host.driver.hold_claim INTERFACE...``: claim their NIC until standard input ends."""

from __future__ import annotations

import sys

from mrc_host.driver.nic_claim import NicClaim

if __name__ == "__main__":
    claim = NicClaim(sys.argv[1:])
    print("claimed", flush=True)
    sys.stdin.read()
