"""Join a fabric that another process has brought up: :func:`attached`.

The fabric's file says what it is, and the records of the run directory in which namespaces its hosts live. Each host
gets one more shell there, which is ours; links and switches are known, not made. Leaving ends the shells and nothing
else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from topologies import addressing, loader
from topologies.emulation import host_environment, requirements, run_directory, switches
from topologies.emulation.bring_up import Emulation, kernel_ports, link_options
from topologies.emulation.errors import EmulationError
from topologies.emulation.process_watch import ProcessWatch
from topologies.emulation.run_directory import FabricState, RunDirectory
from topologies.fabric import Fabric

if TYPE_CHECKING:
    from topologies.emulation.nodes import FabricNet


@contextlib.contextmanager
def attached(name: str) -> Iterator[Emulation]:
    """The fabric `name`, which must be up; EmulationError when it is not."""
    requirements.check()
    run = RunDirectory(name)
    if run.owner() is None:
        raise EmulationError(f"There is no fabric {name}: {up_now()}.")
    if not run.fabric_file.is_file() or not run.controller_socket.exists():
        raise EmulationError(f"Fabric {name} is still coming up or going down: try again in a moment.")
    fabric = loader.load_file(run.fabric_file)
    net = _join(fabric, run)
    try:
        with watching(run) as watch:
            yield Emulation(fabric, run, switches.address_in_use(run), net, watch=watch)
    finally:
        for node in (*net.hosts, *net.switches):
            if node.shell:
                node.terminate()


@contextlib.contextmanager
def watching(run: RunDirectory) -> Iterator[ProcessWatch]:
    """Watch the processes of a fabric that another process has brought up."""
    names = set(run.ended_names())  # first: one that is being restarted is among these, or has a new record
    records = [record for record in run.records() if record.namespace is None]
    processes = {record.name: record.pid for record in records if record.alive()}
    absent = names.union(record.name for record in records).difference(processes)
    watch = ProcessWatch(run, processes, keep=False, owner=run.owner(), absent=absent)
    try:
        yield watch
    finally:
        watch.stop()


def up_now() -> str:
    """What is up, in words."""
    names = [name for name in run_directory.existing() if RunDirectory(name).state() is FabricState.UP]
    return f"up are {', '.join(names)}" if names else "none is up"


def _join(fabric: Fabric, run: RunDirectory) -> FabricNet:
    from topologies.emulation.nodes import FabricNet, KernelSwitch, KnownLink

    shells = run.shells()
    net = FabricNet(interface_group=addressing.interface_group(fabric.name))
    for nic in fabric.nics:
        shell = shells.get(nic.name)
        if shell is None:
            raise EmulationError(f"Host {nic.name} of fabric {fabric.name} is gone: take the fabric down.")
        environment = host_environment.variables(run, nic.name)
        ports = kernel_ports(fabric, nic)
        net.addHost(nic.name, ip=None, kernel_ports=ports, inside=shell.pid, environment=environment)
    for switch in fabric.switches:
        if not switch.kernel:
            net.addSwitch(switch.name, device_id=switch.device_id)
            continue
        shell = shells.get(switch.name)
        if shell is None:
            raise EmulationError(f"Switch {switch.name} of fabric {fabric.name} is gone: take the fabric down.")
        net.addSwitch(switch.name, cls=KernelSwitch, device_id=switch.device_id, inside=shell.pid)
    for link in fabric.links:
        options: dict[str, Any] = link_options(fabric, link)
        net.addLink(link.lower.node, link.upper.node, cls=KnownLink, **options)
    return net
