"""What a fabric may leave behind on the machine: interfaces, its run directory, its processes, those in its hosts.

A test notes processes and namespaces while the fabric is up, and asks what is left when it is down.
"""

from __future__ import annotations

import contextlib
import os
import select
from dataclasses import dataclass, field
from pathlib import Path

from pyroute2 import IPRoute

from topologies import addressing
from topologies.emulation import interfaces, namespaces
from topologies.emulation.run_directory import RunDirectory


@dataclass
class Traces:
    """Everything of a fabric that the machine could still hold when it is down."""

    name: str
    pids: dict[int, int] = field(default_factory=dict)
    cookies: set[int] = field(default_factory=set)

    def note(self) -> None:
        """Remember processes and namespaces while the fabric is up."""
        for record in RunDirectory(self.name).records():
            self.pids[record.pid] = record.start_time
            if record.namespace is not None:
                self.cookies.add(record.namespace)

    def left(self) -> list[str]:
        """What is there, named."""
        found = []
        with IPRoute() as netlink:
            found += list(interfaces.group_members(netlink, addressing.interface_group(self.name)))
            tag = f"{addressing.tag(self.name)}-t"
            found += [link.get("ifname") for link in netlink.get_links() if link.get("ifname").startswith(tag)]
        if RunDirectory(self.name).path.exists():
            found.append(str(RunDirectory(self.name).path))
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                pid = int(process.name)
                words = (process / "cmdline").read_bytes()
                if f"/run/mrc/{self.name}/".encode() in words:
                    found.append(f"process {pid}: {words!r}")
                if self.cookies and os.readlink(process / "ns/net") != os.readlink("/proc/self/ns/net"):
                    found += [f"process {pid} in a host"] if namespaces.cookie(pid) in self.cookies else []
        return found


def wait_until_gone(pids: dict[int, int]) -> None:
    """Wait until processes have ended; those of other start times are others."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                assert select.select([descriptor], [], [], 10)[0], f"process {pid} lives on"
            finally:
                os.close(descriptor)
