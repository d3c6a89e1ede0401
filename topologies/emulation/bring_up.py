"""Bring a fabric up, hand it over, take it down: :func:`emulated`.

What takes time is Python starting and importing gRPC in other processes, so those are started as early as they can
be and waited for last. In order: companions (whatever the caller wants to run beside the fabric, such as the
controller, which waits for the switches by itself); hosts' namespaces; links and switch ports; switch processes;
the hosts' kernels and agents; then all readiness events at once. This process opens no gRPC channel, so forking
Mininet's nodes is safe.

Everything that must be undone is on one stack, and signals are acted upon only between steps (``deferred_signals``), so
Ctrl-C during bring-up leaves nothing. Against kill -9 there are three nets: children are killed by the kernel with
the thread that called :func:`emulated`, namespaces go with their shells, and the next bring-up of the same name (or
``cleanup``) removes what the run directory and the interface group show.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyroute2 import IPRoute

from mrc_common import children
from mrc_common.written_files import write_text
from mrc_host.agent.config_file import dump_config
from topologies import addressing, loader, paths
from topologies.emulation import (
    bmv2,
    cleanup,
    deferred_signals,
    host_environment,
    interfaces,
    kernel_switch,
    management,
    namespaces,
    ownership,
    processes,
    requirements,
    run_directory,
    switches,
    transport_timers,
    wire_kind,
    wires,
)
from topologies.emulation.errors import EmulationError, InUseError, ProcessError
from topologies.emulation.interfaces import KernelPort, VethEnd
from topologies.emulation.management import ManagementNetwork
from topologies.emulation.ownership import Mark
from topologies.emulation.process_watch import ProcessWatch
from topologies.emulation.processes import READY_FD, Child, Command
from topologies.emulation.run_directory import RunDirectory
from topologies.emulation.switch_kind import SwitchKind, SwitchSelection
from topologies.emulation.wire_kind import WireKind
from topologies.emulation.wires import FabricWires
from topologies.errors import FabricError
from topologies.fabric import Fabric, FabricNic, Link, LinkEnd, Switch
from topologies.p4_program import P4Program, check_reroutes, fabric_program, remember_source

if TYPE_CHECKING:
    from topologies.emulation.nodes import FabricHost, FabricNet

_LONGEST_NAME = 15  # characters of an interface

Companion = Callable[[RunDirectory, str], Command]
"""Given the run directory and the switches' gRPC address, a process to run beside the fabric and wait for."""


@dataclass(slots=True)
class Emulation:
    """A fabric that is up. `phases` says how many seconds each part of the bring-up took, `bring_up_s` the whole.

    `watch` reports crashes of its processes; it is None only while the fabric comes up.
    """

    fabric: Fabric
    run: RunDirectory
    switches_address: str
    net: FabricNet
    children: dict[str, Child] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    bring_up_s: float = 0.0
    watch: ProcessWatch | None = None

    def host(self, name: str) -> FabricHost:
        """The Mininet node of a host."""
        self.fabric.nic(name)
        node: FabricHost = self.net[name]
        return node

    def socket(self, host: str) -> str:
        """Path of a host agent's socket, as ``verbs.open`` takes it."""
        return str(self.run.host_socket(self.fabric.nic(host).name))

    @property
    def controller_socket(self) -> str:
        """Path of the controller's socket."""
        return str(self.run.controller_socket)

    def spawn(self, command: Command) -> Child:
        """Start one more process that lives no longer than the fabric; its name must not be that of a running one."""
        before = self.children.get(command.name)
        if before is not None and before.process.poll() is None:
            raise ProcessError(f"A process {command.name} is running already: end it first, or use another name.")
        child = processes.start(self.run, command)
        self.children[child.name] = child
        return child

    def restart(self, name: str, *, wait: bool = True, timeout_s: float | None = None) -> Child:
        """Restart a process of the fabric with its command and wait until it is ready; one that still runs is ended.

        The controller programs a switch that is back by itself; queue pairs of an agent are gone with it. Raises
        :class:`ProcessError` when there is no such process, or when it does not get ready: then it is ended again.
        Without `wait`, the watch reports a failure.
        """
        before = self.children.get(name)
        if before is None:
            raise ProcessError(f"Fabric {self.fabric.name} has no process {name}: it has {', '.join(self.children)}.")
        if self.watch is not None:
            self.watch.forget(name)
        self.run.ends_on_purpose(name)
        processes.stop([before])
        child = self.spawn(before.command)
        try:
            if wait:
                longest = processes.ready_seconds() if timeout_s is None else timeout_s
                processes.wait_ready([child], timeout_s=longest, check=lambda: None)
        except BaseException:
            processes.stop([child])
            raise
        if self.watch is not None:
            self.watch.add(name, child.process.pid)
        return child

    def spawn_in(self, host: str, name: str, argv: Sequence[str]) -> Child:
        """Start a process inside a host's namespace that lives no longer than the fabric."""
        return self.spawn(Command(name, tuple(argv), namespace_pid=self.host(host).pid))


@contextlib.contextmanager
def emulated(
    fabric: Fabric,
    *,
    switch: SwitchKind | SwitchSelection | str = SwitchKind.EMBEDDED,
    wire: WireKind | str = wire_kind.DEFAULT,
    agents: bool = True,
    management_network: bool = True,
    companions: Sequence[Companion] = (),
    ready_timeout_s: float | None = None,
    program: P4Program | None = None,
) -> Iterator[Emulation]:
    """Bring `fabric` up as Mininet nodes, veth links and processes; on leaving, take everything down.

    `switch` chooses the data plane or, as for `--switch`, that of single switches too; `wire` what carries frames,
    `agents` whether each host runs its NIC's agent, `management_network` whether hosts also reach each other beside the
    fabric, `companions` what else belongs to it, `program` what P4 switches run instead of the fabric's own program.

    Raises :class:`EmulationError` (RequirementError, InUseError, ProcessError).
    """
    began = time.monotonic()
    selection = _selection(switch)
    fabric, kind = selection.applied(fabric), selection.program
    longest = processes.ready_seconds() if ready_timeout_s is None else ready_timeout_s
    _check_name_lengths(fabric)
    requirements.check(switch=kind.value, kernel_switches=bool(fabric.kernel_switches))
    wires_kind = _wire_kind(wire)
    wires.check(kind, wires_kind)
    runs = _program(program, fabric)
    run = RunDirectory(fabric.name)
    with contextlib.ExitStack() as stack:
        stack.enter_context(deferred_signals.orderly())
        with deferred_signals.deferred() as signals:
            # Registered first, so that it runs last and tidies whatever step was reached.
            mark = stack.enter_context(_owned(run))
            laid = FabricWires(fabric, kind, wires_kind)
            stack.callback(laid.close)
            builder = _Builder(fabric, run, kind, laid, mark, signals.check, began, runs)
            stack.callback(builder.take_down)
            emulation = builder.bring_up(agents, management_network, companions, longest)
        yield emulation


def _selection(switch: SwitchKind | SwitchSelection | str) -> SwitchSelection:
    if isinstance(switch, SwitchSelection):
        return switch
    return SwitchSelection.parse(switch if isinstance(switch, str) else switch.value)


def _program(wanted: P4Program | None, fabric: Fabric) -> P4Program:
    try:
        program = wanted or fabric_program()
        check_reroutes(fabric, program.tables(), program.name)
    except FabricError as error:
        raise EmulationError(str(error)) from None
    if not program.p4info:
        raise EmulationError(f"{program.name} has no P4Info, which P4Runtime needs: put NAME.p4info.txtpb beside it.")
    return program


def _wire_kind(wire: WireKind | str) -> WireKind:
    try:
        return WireKind(wire)
    except ValueError:
        known = ", ".join(kind.value for kind in WireKind)
        raise EmulationError(f"There is no wire {wire!r}: choose one of {known}.") from None


@contextlib.contextmanager
def _owned(run: RunDirectory) -> Iterator[Mark]:
    """Hold the run directory, without leftovers of an earlier run and of nothing afterwards; gives the links' mark."""
    with run.locked(), ownership.claimed(run.name) as mark:
        try:
            _check_interface_names(run)
            cleanup.remove_leftovers(run)
            run.closing_file.unlink(missing_ok=True)
            run.create()
            yield mark
        finally:
            run.remove()


def _check_name_lengths(fabric: Fabric) -> None:
    ends = (end for link in fabric.links for end in (link.lower, link.upper))
    name = next((name for end in ends if len(name := addressing.interface_name(fabric, end)) > _LONGEST_NAME), None)
    if name is not None:
        raise EmulationError(
            f"Interface {name} has more than the kernel's {_LONGEST_NAME} characters: use fewer switches."
        )


def _check_interface_names(run: RunDirectory) -> None:
    for other in run_directory.existing(run.root):
        if other != run.name and addressing.tag(other) == addressing.tag(run.name):
            down = RunDirectory(other, run.root).owner() is None
            remedy = f"remove its leftovers with 'mrc clean --name {other}'" if down else "choose another name"
            raise InUseError(f"Fabric {run.name} would use the interface names of fabric {other}: {remedy}.")
    cleanup.free_interface_names(run.name)


def kernel_ports(fabric: Fabric, nic: FabricNic) -> list[KernelPort]:
    """Settings of the kernel of a host for each of its ports that has a link, by plane."""
    of_nic = ((str(IPv6Address(addressing.usid_address(fabric))), 32), (str(addressing.nic_address(fabric, nic)), 128))
    ports = []
    for link in fabric.links_of(nic.name):
        end, gateway, plane = link.lower, link.upper, link.plane
        prefixes = [addressing.kernel_prefix(fabric, t0, plane) for t0 in range(fabric.t0_count)]
        port = KernelPort(
            interface=addressing.interface_name(fabric, end),
            address=str(addressing.kernel_address(fabric, nic, plane)),
            gateway=str(addressing.KERNEL_GATEWAY),
            gateway_mac=addressing.mac(fabric, gateway),
            prefixes=tuple((str(prefix.network_address), prefix.prefixlen) for prefix in prefixes),
            of_nic=of_nic,
        )
        ports.append(port)
    return ports


def link_options(fabric: Fabric, link: Link) -> dict[str, Any]:
    """Ports, interface names and MAC addresses of both ends, as Mininet's links take them."""
    options: dict[str, Any] = {}
    for number, end in {"1": link.lower, "2": link.upper}.items():
        options[f"port{number}"] = end.port
        options[f"intfName{number}"] = addressing.interface_name(fabric, end)
        options[f"addr{number}"] = addressing.mac(fabric, end).hex(":")
    return options


class _Builder:
    """The steps of one bring-up, and the state that taking it down needs."""

    def __init__(
        self,
        fabric: Fabric,
        run: RunDirectory,
        kind: SwitchKind,
        laid: FabricWires,
        mark: Mark,
        check: Callable[[], None],
        began: float,
        program: P4Program,
    ) -> None:
        from topologies.emulation.nodes import FabricNet  # Mininet is known to be there by now

        self.fabric = fabric
        self.run = run
        self.kind = kind
        self.wires = laid
        self.check = check
        self.program = program
        self.group = addressing.interface_group(fabric.name)
        self.mark = mark
        net = FabricNet(interface_group=self.group, mark=mark)
        self.emulation = Emulation(fabric, run, switches.address(run, kind), net)
        self._management: ManagementNetwork | None = None
        self._fitted = transport_timers.fitted(fabric)
        self._round_trips = transport_timers.round_trips(fabric)
        self._began = self._mark = began

    def bring_up(
        self, agents: bool, management_network: bool, companions: Sequence[Companion], ready_timeout_s: float
    ) -> Emulation:
        """All steps in order."""
        emulation = self.emulation
        self._phase("requirements")
        write_text(self.run.fabric_file, loader.dump_text(self.fabric))
        self.program.save(self.run.program)
        remember_source(self.run.program, Path(self.program.source) if self.program.source else None)
        for companion in companions:
            emulation.spawn(companion(self.run, emulation.switches_address))
        self._phase("companions")
        self._add_hosts(management_network)
        self._phase("hosts")
        self._add_switches()
        with IPRoute() as netlink:
            self._add_links(netlink)
            self._phase("links")
            self._raise_switch_ports(netlink)
        self._phase("switch_ports")
        for command in switches.commands(self.fabric, self.run, self.kind, self.wires):
            emulation.spawn(command)
            self.check()
        self._phase("start_switches")
        for nic in self.fabric.nics:
            emulation.host(nic.name).configure()
            if agents:
                emulation.spawn(self._agent(nic))
            self.check()
        self._phase("start_agents")
        processes.wait_ready(emulation.children.values(), timeout_s=ready_timeout_s, check=self.check)
        self._phase("ready")
        if self.kind is SwitchKind.BMV2:
            self._set_bmv2_queues()
            self._phase("queues")
        pids = {child.name: child.process.pid for child in emulation.children.values()}
        emulation.watch = ProcessWatch(self.run, pids, keep=True)
        emulation.bring_up_s = time.monotonic() - self._began
        return emulation

    def take_down(self) -> None:
        """Undo whatever was done, undisturbed by signals."""
        with deferred_signals.deferred():
            with contextlib.suppress(OSError):
                self.run.closing_file.touch()
            if self.emulation.watch is not None:
                self.emulation.watch.stop()
            processes.stop(reversed(self.emulation.children.values()))
            self.emulation.net.stop()
            if self._management is not None:
                self._management.close()
            cleanup.remove_leftovers(self.run)  # what users started inside hosts

    def _phase(self, name: str) -> None:
        now = time.monotonic()
        self.emulation.phases[name] = now - self._mark
        self._mark = now
        self.check()

    def _add_hosts(self, management_network: bool) -> None:
        names = self.run.names_file
        write_text(names, management.names(self.fabric, management=management_network))
        for nic in self.fabric.nics:
            environment = host_environment.variables(self.run, nic.name)
            ports = kernel_ports(self.fabric, nic)
            host = self.emulation.net.addHost(nic.name, ip=None, kernel_ports=ports, environment=environment)
            host.shell_started = partial(self._record_shell, nic.name)
            host.shell_started(host.pid)
            namespaces.run_inside(host.pid, interfaces.prepare_host)
            management.name_host(host.pid, nic.name, names)
            self.check()
        if management_network:
            self._management = ManagementNetwork(self.fabric)
            self._management.connect([(nic, self.emulation.host(nic.name).pid) for nic in self.fabric.nics])

    def _record_shell(self, node: str, pid: int) -> None:
        argv = ("bash", "--norc", "--noediting", "-is", f"mininet:{node}")
        self.run.record_shell(node, pid, argv, namespaces.cookie(pid))

    def _add_switches(self) -> None:
        for switch in self.fabric.switches:
            if switch.kernel:
                self._add_kernel_switch(switch)
            else:
                self.emulation.net.addSwitch(switch.name, device_id=switch.device_id)
            self.check()

    def _add_kernel_switch(self, switch: Switch) -> None:
        from topologies.emulation.nodes import KernelSwitch

        node = self.emulation.net.addSwitch(switch.name, cls=KernelSwitch, device_id=switch.device_id)
        node.shell_started = partial(self._record_shell, switch.name)
        node.shell_started(node.pid)
        namespaces.run_inside(node.pid, partial(kernel_switch.prepare, self.fabric, switch))

    def _add_links(self, netlink: IPRoute) -> None:
        for link in self.fabric.links:
            self._add_link(netlink, link)
            self.check()
        for nic in self.fabric.nics:
            for plane in range(self.fabric.planes):
                if self.fabric.nic_link(nic, plane) is None:
                    self._add_unplugged(netlink, LinkEnd(nic.name, plane))
            self.check()

    def _add_unplugged(self, netlink: IPRoute, end: LinkEnd) -> None:
        """A NIC's port without a link: the other end of its veth link is never up, so there is no carrier."""
        mac = addressing.mac(self.fabric, end)
        near = VethEnd(addressing.unplugged_name(self.fabric, end), mac[:-1] + bytes((mac[-1] ^ 0x80,)))
        far = VethEnd(addressing.interface_name(self.fabric, end), mac, self.emulation.host(end.node).pid)
        interfaces.create_veth(netlink, near, far, mtu=self.fabric.mtu, group=self.group, mark=self.mark)

    def _add_link(self, netlink: IPRoute, link: Link) -> None:
        self.emulation.net.addLink(
            link.lower.node,
            link.upper.node,
            netlink=netlink,
            mtu=self.fabric.mtu,
            group=self.group,
            mark=self.mark,
            **link_options(self.fabric, link),
        )

    def _raise_switch_ports(self, netlink: IPRoute) -> None:
        ends = [(LinkEnd(switch.name, port)) for switch in self.fabric.p4_switches for port in switch.ports]
        names = [addressing.interface_name(self.fabric, end) for end in ends]
        interfaces.bring_up_switch_ports(netlink, names, self.group, self.mark)
        if self.kind is SwitchKind.BMV2:
            for end, name in zip(ends, names, strict=True):
                link = self.fabric.link_at(end)
                assert link is not None, "a fabric has a link on every port"
                interfaces.shape(netlink, name, link.rate_bps, self.fabric.mtu)
        for switch in self.fabric.kernel_switches:
            pid = self.emulation.net[switch.name].pid
            namespaces.run_inside(pid, partial(kernel_switch.configure_ports, self.fabric, switch))
            self.check()

    def _set_bmv2_queues(self) -> None:
        for switch in self.fabric.p4_switches:
            command = self.emulation.children[f"switch-{switch.name}"].command
            bmv2.set_queues(self.fabric, switch, switches.thrift_port(command))
            self.check()

    def _agent(self, nic: FabricNic) -> Command:
        config = self.run.config_file(nic.name)
        write_text(config, dump_config(paths.nic_config(self._fitted, nic, self._round_trips)))
        socket = str(self.run.host_socket(nic.name))
        argv = children.python("mrc_host.agent", "--config", str(config), "--socket", socket, "--ready-fd", READY_FD)
        return Command(
            nic.name,
            (*argv, *self.wires.arguments(nic.name)),
            namespace_pid=self.emulation.host(nic.name).pid,
            inherits=self.wires.descriptors((nic.name,)),
        )
