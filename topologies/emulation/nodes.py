"""Mininet classes for a fabric: hosts, switches, interfaces, links and the network itself.

They behave as Mininet's own at the prompt (``h1 ping h3``, ``pingall``, ``link h1 t0-0@p0 down``, ``h1 tcpdump
...``), with these differences. Links are made and set up or down by netlink. A host's IP() is its kernel's IPv6
address in plane 0. A switch has a shell only once somebody types a command for it, since dozens of idle shells cost
time and memory; stopping a switch takes all its interfaces down, starting it takes them up, whichever process its
data plane runs in. Shells die with this process (see ``processes``).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Host, Node, Switch
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from topologies.emulation import interfaces, kernel_switch, limits, namespaces
from topologies.emulation.interfaces import KernelPort, VethEnd
from topologies.emulation.mininet_shell import ShellNode
from topologies.emulation.ownership import Mark


class FabricHost(ShellNode, Host):  # type: ignore[misc]
    """A host: a shell in namespaces of its own. `kernel_ports` configures its kernel's ports, plane 0 first.

    The namespaces are new ones, or those of the process `inside`. `environment` is added to that of its processes.
    """

    def __init__(
        self,
        name: str,
        *,
        kernel_ports: Sequence[KernelPort] = (),
        inside: int | None = None,
        environment: Mapping[str, str] | None = None,
        **params: Any,
    ) -> None:
        self.kernel_ports = {port.interface: port for port in kernel_ports}
        self._inside = inside
        self._environment = dict(environment or {})
        super().__init__(name, **params)

    def _popen(self, cmd: Sequence[str], **params: Any) -> Any:
        if list(cmd[:2]) == ["mnexec", "-cdn"] and not self._kept:  # the first shell
            uts = ["unshare", "--uts", "--"] if self._inside is None else namespaces.enter_name(self._inside)
            inside = [] if self._inside is None else ["-a", str(self._inside)]
            cmd = [*uts, "mnexec", "-cd" if inside else "-cdn", *inside, *cmd[2:]]
        params["env"] = {**(params.get("env") or os.environ), **self._environment}
        return super()._popen(cmd, **params)

    def popen(self, *args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        """Start a process inside the host."""
        kwargs.setdefault("mncmd", [*namespaces.enter_name(self.pid), "mnexec", "-da", str(self.pid)])
        process: subprocess.Popen[bytes] = super().popen(*args, **kwargs)
        return process

    def configure(self, *names: str) -> None:
        """Take ports up with their addresses and routes: those named, or all. Safe to repeat."""
        self.ensure_shell()
        wanted = [port for name, port in self.kernel_ports.items() if not names or name in names]
        namespaces.run_inside(self.pid, lambda: interfaces.configure_host_ports(wanted))


class FabricSwitch(ShellNode, Switch):  # type: ignore[misc]
    """A switch whose ports are interfaces of the root namespace; its data plane is a process of its own or shared."""

    def __init__(self, name: str, *, device_id: int, **params: Any) -> None:
        self._shell_wanted = False
        params["inNamespace"] = False
        Node.__init__(self, name, **params)  # Switch would set up a controller interface through a shell
        self.dpid = f"{device_id:016x}"
        self.opts = ""
        self.listenPort = None
        self.controlIntf = None

    def __repr__(self) -> str:
        """Mininet's, without the process id of a shell that there is not yet."""
        return str(super().__repr__()).replace(" pid=None", "")

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 (Mininet's name)
        """Start the shell, but not before it is needed."""
        if self._shell_wanted:
            super().startShell(mnopts)

    def ensure_shell(self) -> None:
        """Start the shell unless it is running."""
        self._shell_wanted = True
        super().ensure_shell()

    def popen(self, *args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        """Start a process where the switch is, which is here."""
        kwargs.setdefault("mncmd", ["mnexec", "-d"])
        process: subprocess.Popen[bytes] = super().popen(*args, **kwargs)
        return process

    def start(self, controllers: Sequence[Any] = ()) -> None:
        """Take all ports up."""
        for interface in self.intfList():
            interface.ifconfig("up")

    def stop(self, deleteIntfs: bool = False) -> None:  # noqa: N803
        """Take all ports down, as if the switch were powered off."""
        for interface in self.intfList():
            interface.ifconfig("down")


class KernelSwitch(ShellNode, Switch):  # type: ignore[misc]
    """A kernel switch: a shell in the namespace that forwards, whose interfaces are its ports.

    The namespace is a new one, or that of the process `inside`. Its routes are the controller's work.
    """

    def __init__(self, name: str, *, device_id: int, inside: int | None = None, **params: Any) -> None:
        self._inside = inside
        params["inNamespace"] = True
        Node.__init__(self, name, **params)  # Switch would set up a controller interface through a shell
        self.dpid = f"{device_id:016x}"
        self.opts = ""
        self.listenPort = None
        self.controlIntf = None

    def _popen(self, cmd: Sequence[str], **params: Any) -> Any:
        if self._inside is not None and list(cmd[:2]) == ["mnexec", "-cdn"] and not self._kept:  # the first shell
            cmd = ["mnexec", "-cd", "-a", str(self._inside), *cmd[2:]]
        return super()._popen(cmd, **params)

    def popen(self, *args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        """Start a process in the switch."""
        kwargs.setdefault("mncmd", ["mnexec", "-da", str(self.pid)])
        process: subprocess.Popen[bytes] = super().popen(*args, **kwargs)
        return process

    def configure(self, *names: str) -> None:
        """Take ports up: those named, or all. Safe to repeat."""
        self.ensure_shell()
        wanted = [interface.name for interface in self.intfList() if not names or interface.name in names]
        namespaces.run_inside(self.pid, lambda: kernel_switch.raise_ports(wanted))

    def start(self, controllers: Sequence[Any] = ()) -> None:
        """Take all ports up."""
        self.configure()

    def stop(self, deleteIntfs: bool = False) -> None:  # noqa: N803
        """Take all ports down, as if the switch were powered off."""
        for interface in self.intfList():
            interface.ifconfig("down")


class FabricIntf(Intf):  # type: ignore[misc]
    """An interface that was made and set up by netlink; Mininet's object only knows it."""

    def config(self, **_params: Any) -> dict[str, Any]:
        """Do nothing: all is configured when the fabric is built."""
        return {}

    def ifconfig(self, *args: str) -> Any:
        """``up`` and ``down`` by netlink, anything else as Mininet does it; returns an error text or nothing."""
        if args not in {("up",), ("down",)}:
            return super().ifconfig(*args)
        up = args == ("up",)
        try:
            if not self.node.inNamespace:
                interfaces.set_link_state(self.name, up=up)
            elif up:
                self.node.configure(self.name)
            else:
                namespaces.run_inside(self.node.pid, lambda: interfaces.set_link_state(self.name, up=False))
        except (OSError, NetlinkError) as error:
            return f"{self.name}: {error}"
        return ""

    def _kernel_port(self) -> KernelPort | None:
        ports: dict[str, KernelPort] = getattr(self.node, "kernel_ports", {})
        return ports.get(self.name)

    def IP(self) -> str | None:  # noqa: N802
        """The host's kernel address of this port; None on a switch."""
        port = self._kernel_port()
        return port.address if port else None

    def updateIP(self) -> str | None:  # noqa: N802
        """The same: it never changes."""
        return self.IP()

    def updateMAC(self) -> str | None:  # noqa: N802
        """The MAC address: it never changes."""
        mac: str | None = self.mac
        return mac

    def updateAddr(self) -> tuple[str | None, str | None]:  # noqa: N802
        """IP and MAC address."""
        return self.IP(), self.updateMAC()

    def delete(self) -> None:
        """Delete the interface, and so its link."""
        with IPRoute() as netlink:
            found = () if self.node.inNamespace else tuple(netlink.link_lookup(ifname=self.name))
            if found:
                netlink.link("del", index=found[0])
        self.node.delIntf(self)
        self.link = None


class FabricLink(Link):  # type: ignore[misc]
    """A veth link made by netlink. Ends at hosts and kernel switches are born there, others in the root namespace."""

    def __init__(
        self, node1: Any, node2: Any, *, netlink: IPRoute, mtu: int, group: int, mark: Mark, **params: Any
    ) -> None:
        self._mark = mark
        self._netlink = netlink
        self._group = group
        self._mtu = mtu
        params.update(intf=FabricIntf, cls1=FabricIntf, cls2=FabricIntf, fast=True)
        super().__init__(node1, node2, **params)

    def makeIntfPair(  # noqa: N802
        self,
        intfname1: str,
        intfname2: str,
        addr1: str,
        addr2: str,
        node1: Any,
        node2: Any,
        deleteIntfs: bool = False,  # noqa: N803
    ) -> None:
        """Make the link; both ends are down."""
        ends = [
            VethEnd(name, bytes.fromhex(mac.replace(":", "")), node.pid if node.inNamespace else None)
            for name, mac, node in ((intfname1, addr1, node1), (intfname2, addr2, node2))
        ]
        near, far = sorted(ends, key=lambda end: end.namespace_pid is not None)
        interfaces.create_veth(self._netlink, near, far, mtu=self._mtu, group=self._group, mark=self._mark)

    def stop(self) -> None:
        """Do nothing: the network deletes all links at once."""


class KnownLink(Link):  # type: ignore[misc]
    """A link that somebody else has made."""

    def __init__(self, node1: Any, node2: Any, **params: Any) -> None:
        params.update(intf=FabricIntf, cls1=FabricIntf, cls2=FabricIntf, fast=True)
        super().__init__(node1, node2, **params)

    def makeIntfPair(self, *_arguments: Any, **_params: Any) -> None:  # noqa: N802
        """Do nothing: it is there."""

    def stop(self) -> None:
        """Do nothing: it stays."""


class FabricNet(Mininet):  # type: ignore[misc]
    """The network. Bringing it up is the builder's work; stopping it deletes its links and ends every shell."""

    def __init__(self, *, interface_group: int, mark: Mark | None = None) -> None:
        self.mark = mark
        limits.raise_all()
        Mininet.inited = True  # it would only raise limits, and warn of the first that it cannot
        super().__init__(topo=None, controller=None, switch=FabricSwitch, host=FabricHost, link=FabricLink, build=False)
        self.interface_group = interface_group
        self.built = True

    def start(self) -> None:
        """Do nothing: the builder has started everything."""

    def stop(self) -> None:
        """Delete all links of ours and end all shells. Safe to repeat."""
        if self.mark is not None:
            with IPRoute() as netlink:
                interfaces.delete(netlink, self.interface_group, lambda member: member.mark == self.mark)
        for node in (*self.hosts, *self.switches):
            if node.shell:
                node.terminate()
