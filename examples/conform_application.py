"""The application that `mrc conform --application` runs beside the NIC under test: JSON requests in, answers out.

This one uses the verbs of a NIC of this project, whose agent's socket is its argument. For another NIC, write the five
functions with that NIC's own library.
"""

from __future__ import annotations

import json
import sys
from ipaddress import IPv6Address
from typing import Any

from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_host.verbs_types import CompletionOpcode, QpAddress, QpAttributes

SIZE = 1 << 20


class Application:
    """At most one connection at a time."""

    def __init__(self, socket: str) -> None:
        self.context = verbs.open(socket)
        self.pd: verbs.ProtectionDomain | None = None

    def connect(self, peer: dict[str, Any], attributes: dict[str, Any]) -> dict[str, Any]:
        """Make a queue pair, a region for the peer to write to, and one to send from: byte i is i modulo 251."""
        self.disconnect()
        self.pd = self.context.alloc_pd()
        self.cq = self.context.create_cq(1024)
        self.qp = self.pd.create_qp(self.cq, attributes=QpAttributes(**attributes))
        self.target, self.source = self.pd.alloc_mr(SIZE), self.pd.alloc_mr(SIZE)
        self.source.buffer[:] = (bytes(range(251)) * (SIZE // 251 + 1))[:SIZE]
        self.qp.connect(QpAddress(IPv6Address(peer["address"]).packed, peer["qpn"], peer["psn"]))
        return {
            "qpn": self.qp.qpn,
            "psn": self.qp.address.psn,
            "address": self.target.address,
            "rkey": self.target.rkey,
        }

    def write(self, wr_id: int, size: int, address: int, rkey: int, imm: int | None) -> dict[str, Any]:
        """Post a write of the first bytes."""
        self.qp.post_write(self.source, 0, size, address, rkey, wr_id=wr_id, imm=imm)
        return {}

    def finished(self) -> dict[str, Any]:
        """Take the completions that are there."""
        received = CompletionOpcode.RECV_WRITE_WITH_IMM
        entries = [
            {"received": one.opcode is received, "wr_id": one.wr_id, "status": one.status.value, "imm": one.imm or 0}
            for one in self.cq.poll(1024)
        ]
        return {"completions": entries}

    def memory(self, offset: int, size: int) -> dict[str, Any]:
        """What the peer has written."""
        return {"hex": bytes(self.target.buffer[offset : offset + size]).hex()}

    def disconnect(self) -> dict[str, Any]:
        """Destroy the connection."""
        if self.pd is not None:
            self.pd.close()
            self.cq.close()
            self.pd = None
        return {}


def main() -> None:
    """Answer requests until standard input ends."""
    application = Application(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        do = getattr(application, request.pop("do"))
        try:
            answer = do(**request)
        except MrcError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
