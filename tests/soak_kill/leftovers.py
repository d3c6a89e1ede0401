"""What is left of a fabric: its run directory, interfaces, recorded processes, and whatever runs in its hosts."""

from __future__ import annotations

from pyroute2 import IPRoute

from topologies import addressing
from topologies.emulation import cleanup, interfaces, namespaces
from topologies.emulation.run_directory import ProcessRecord, RunDirectory


class Traces:
    """Remembers what belongs to fabric `name`, so that it can be looked for afterwards."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._records: dict[int, ProcessRecord] = {}

    def note(self) -> None:
        """Remember the processes recorded now; call it after every start of one."""
        for record in RunDirectory(self.name).records():
            self._records[record.pid] = record

    def left(self) -> list[str]:
        """Everything of the fabric that is there, in words."""
        found = []
        run = RunDirectory(self.name)
        if run.path.exists():
            found.append(f"folder {run.path}")
        with IPRoute() as netlink:
            members = interfaces.group_members(netlink, addressing.interface_group(self.name))
            found += [f"interface {member}" for member in members]
        found += [f"process {pid} ({record.name})" for pid, record in self._records.items() if record.alive()]
        cookies = {record.namespace for record in self._records.values() if record.namespace is not None}
        found += [f"process {pid} in a host" for pid in cleanup.processes_in(cookies - {namespaces.cookie()})]
        return found
