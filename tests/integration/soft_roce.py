"""An agent of ours and the kernel's soft-RoCE (rdma_rxe), joined by a veth pair.

The kernel's end is in the namespace of the test, since rdma_rxe knows no other, and is driven by verbs of rdma-core
(pyverbs), which is thus a peer that shares nothing with this project. Ours is an agent in a namespace of its own.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv6Address
from pathlib import Path
from shutil import which
from types import ModuleType
from typing import Any

from mrc_host.back_to_back import Agent, nic_config, run
from mrc_host.verbs_types import QpAddress
from tests.integration.names import own
from tests.waiting import until

MTU = 4096
SIZE = 1 << 20


def missing() -> str:
    """Why soft-RoCE cannot be had here; empty if it can."""
    try:
        import pyverbs.device
    except ImportError:
        return "pyverbs, rdma-core's Python interface, is not installed (python3-pyverbs)"
    assert pyverbs.device
    if which("rdma") is None:
        return "iproute2's rdma is not installed"
    loader = which("modprobe")
    if loader is None or subprocess.run([loader, "rdma_rxe"], capture_output=True, check=False).returncode:
        return "this kernel has no rdma_rxe"
    return ""


def verbs_of_rdma_core() -> ModuleType:
    """The constants of libibverbs."""
    from pyverbs import enums

    found: ModuleType = enums
    return found


class KernelPeer:
    """A queue pair of soft-RoCE with `SIZE` bytes of memory, and the counters of its device."""

    def __init__(self, device: str, address: bytes) -> None:
        from pyverbs.cq import CQ
        from pyverbs.device import Context
        from pyverbs.mr import MR
        from pyverbs.pd import PD
        from pyverbs.qp import QP, QPCap, QPInitAttr

        self.e = verbs_of_rdma_core()
        self._device = device
        self._context = Context(name=device)
        self._gid = self._gid_index(address)
        self._pd = PD(self._context)
        access = self.e.IBV_ACCESS_LOCAL_WRITE | self.e.IBV_ACCESS_REMOTE_WRITE
        self.mr = MR(self._pd, SIZE, access)
        self._cq = CQ(self._context, 128, None, None, 0)
        cap = QPCap(max_send_wr=64, max_recv_wr=64, max_send_sge=1, max_recv_sge=1)
        self._qp = QP(self._pd, QPInitAttr(qp_type=self.e.IBV_QPT_RC, scq=self._cq, rcq=self._cq, cap=cap))
        self.psn = 0xFFFFF0  # so that PSNs wrap soon

    @property
    def qpn(self) -> int:
        return int(self._qp.qp_num)

    def _gid_index(self, address: bytes) -> int:
        def found() -> int | None:
            folder = Path(f"/sys/class/infiniband/{self._device}/ports/1/gids")
            for file in sorted(folder.iterdir(), key=lambda each: int(each.name))[:16]:
                with contextlib.suppress(OSError):
                    if bytes.fromhex(file.read_text().replace(":", "")) == address:
                        return int(file.name)
            return None

        return until(lambda: (index := found()) is not None and (index + 1,), "the address is a GID")[0] - 1

    def connect(self, remote: QpAddress, *, rnr_retry: int = 7) -> None:
        """RESET to RTS."""
        from pyverbs.addr import GID, AHAttr, GlobalRoute
        from pyverbs.qp import QPAttr

        route = GlobalRoute(dgid=GID(IPv6Address(remote.address).exploded), sgid_index=self._gid, hop_limit=64)
        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = self.e.IBV_ACCESS_LOCAL_WRITE | self.e.IBV_ACCESS_REMOTE_WRITE
        attributes.path_mtu = self.e.IBV_MTU_4096
        attributes.dest_qp_num = remote.qpn
        attributes.rq_psn = remote.psn
        attributes.sq_psn = self.psn
        attributes.min_rnr_timer = 12
        attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = 14, 7, rnr_retry
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
        attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        self._qp.to_rts(attributes)

    def write(self, length: int, address: int, rkey: int, *, imm: int | None = None) -> None:
        """Post one WRITE of the first `length` bytes of memory."""
        from pyverbs.wr import SGE, SendWR

        opcode = self.e.IBV_WR_RDMA_WRITE if imm is None else self.e.IBV_WR_RDMA_WRITE_WITH_IMM
        piece = SGE(self.mr.buf, length, self.mr.lkey)
        request = SendWR(
            1, opcode=opcode, num_sge=1, imm_data=imm or 0, sg=[piece], send_flags=self.e.IBV_SEND_SIGNALED
        )
        request.set_wr_rdma(rkey, address)
        self._qp.post_send(request)

    def receive(self) -> None:
        """Post a receive, which a WRITE_WITH_IMM takes."""
        from pyverbs.wr import SGE, RecvWR

        self._qp.post_recv(RecvWR(2, num_sge=1, sg=[SGE(self.mr.buf, 0, self.mr.lkey)]))

    def completion(self) -> Any:
        """The next work completion."""

        def polled() -> Any:
            count, found = self._cq.poll()
            return found[0] if count else None

        return until(polled, "soft-RoCE completes")

    def counters(self) -> dict[str, int]:
        """The device's hardware counters, by name."""
        folder = Path(f"/sys/class/infiniband/{self._device}/ports/1/hw_counters")
        return {file.name: int(file.read_text()) for file in folder.iterdir() if file.name != "lifespan"}

    def advanced(self, before: dict[str, int], name: str, by: int) -> None:
        """Wait until a counter has grown by `by` or more: a packet may be answered before it is counted."""
        until(lambda: self.counters()[name] >= before[name] + by, f"{name} to grow by {by}")

    def close(self) -> None:
        for part in (self._qp, self._cq, self.mr, self._pd, self._context):
            part.close()


class Pair:
    """Our agent, and the device that soft-RoCE makes of the other end of its link."""

    def __init__(self, agent: Agent, device: str, interface: str, address: bytes) -> None:
        self.agent = agent
        self.device = device
        self.interface = interface
        self.address = address

    def tc(self, *words: str) -> None:
        """Run tc on the kernel's end."""
        run("tc", *[self.interface if word == "DEV" else word for word in words])


@contextlib.contextmanager
def pair(folder: Path) -> Iterator[Pair]:
    """Bring both up."""
    name = own("rxe")
    config = replace(nic_config(0, planes=1), mtu=4500)
    port, other = config.ports[0], config.destinations[0].address
    here, there = (str(IPv6Address(each)) for each in (config.address, other))
    run("ip", "netns", "add", name)
    agent: Agent | None = None
    try:
        run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
        ends = ("name", port.interface, "netns", name, "address", port.mac.hex(":"), "mtu", "4500")
        mac = port.gateway_mac.hex(":")
        run("ip", "link", "add", name, "mtu", "4500", "address", mac, "type", "veth", "peer", *ends)
        run("ip", "-n", name, "link", "set", port.interface, "up")
        run("ip", "link", "set", name, "up")
        run("ip", "address", "add", f"{there}/128", "dev", name, "nodad")
        run("ip", "route", "add", f"{here}/128", "dev", name)
        run("ip", "neighbour", "add", here, "lladdr", port.mac.hex(":"), "dev", name)
        run("rdma", "link", "add", name, "type", "rxe", "netdev", name)
        agent = Agent(name, config, folder)
        yield Pair(agent, name, name, other)
    finally:
        if agent is not None:
            agent.close()
        for undo in (("rdma", "link", "delete", name), ("ip", "link", "del", name), ("ip", "netns", "del", name)):
            with contextlib.suppress(RuntimeError):
                run(*undo)
