"""Requirements of an emulated fabric on this machine; what is missing, and what to do.

The kernel's part is tried, not guessed from version numbers: a network namespace is made, a veth link in it, and a
packet socket on that, and Mininet's own helper starts a command in one. All is gone when the question is answered.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from ipaddress import IPv6Network
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from mrc_common import children
from topologies import addressing
from topologies.emulation import kernel_switch, namespaces, switch_kind
from topologies.emulation.errors import RequirementError
from topologies.emulation.kernel_programming import SID_LINK
from topologies.emulation.route_netlink import KernelRoute, RouteSocket, Shift
from topologies.emulation.switch_kind import SwitchSelection
from topologies.errors import FabricError
from topologies.kernel_routes import BLOCK_BITS
from topologies.p4_program import fabric_program

_TOOLS = {
    "mnexec": "mininet",
    "ifconfig": "net-tools",
    "setpriv": "util-linux",
    "nsenter": "util-linux",
    "bash": "bash",
}
_ETH_P_ALL = 3
_DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"


def check(*, switch: str = switch_kind.DEFAULT, kernel_switches: bool = False) -> None:
    """Raise :class:`RequirementError` if a fabric cannot be brought up on this machine.

    `switch` is as for `--switch`, `kernel_switches` says whether the kernel is to be some of them in any case.
    """
    selection = SwitchSelection.parse(switch)
    for _, requirement in needs(selection.program.value):
        requirement()
    if kernel_switches or selection.kernel:
        check_srv6()


def needs(switch: str = switch_kind.DEFAULT) -> tuple[tuple[str, Callable[[], None]], ...]:
    """What a fabric needs, by name, in an order in which each makes sense once those before it hold.

    Each is a function that raises :class:`RequirementError` if it is not there.
    """
    return (
        ("Linux", _check_linux),
        ("P4 program", _check_program),
        ("root", _check_root),
        ("tools", lambda: _check_tools(switch)),
        ("Mininet", _check_mininet),
        ("kernel", _check_kernel),
        ("mnexec", _check_mnexec),
    )


def check_srv6() -> None:
    """Raise :class:`RequirementError` if the kernel cannot be a switch. It is tried, and needs root."""
    try:
        shift = namespaces.run_in_new(_try_srv6)
    except OSError as error:
        raise RequirementError(
            f"This kernel has no SRv6 endpoints ({error.strerror}): take another (CONFIG_IPV6_SEG6_LWTUNNEL),"
            " or leave out --switch kernel and kernel_switches."
        ) from None
    if not shift:
        raise RequirementError(
            "This kernel does not know SRv6's NEXT-CSID flavour, and so no uSIDs: take Linux 6.1 or newer,"
            " or leave out --switch kernel and kernel_switches."
        )


def _try_srv6() -> bool:
    """Whether a route whose flavour is NEXT-CSID is there as it was made; kernels leave out what they do not know."""
    kernel_switch.make_sid_link()
    with RouteSocket() as kernel:
        (index,) = (link.index for link in kernel.links() if link.name == SID_LINK[0])
        shift = Shift(BLOCK_BITS, addressing.USID_BITS)
        wanted = KernelRoute(IPv6Network("fc00:0:2000::/48"), frozenset(((index, None),)), shift)
        kernel.add_route(wanted)
        return kernel.routes() == [wanted]


def _check_linux() -> None:
    if not sys.platform.startswith("linux"):
        raise RequirementError("An emulated fabric needs Linux: use the virtual machine in vagrant/.")


def _check_program() -> None:
    try:
        fabric_program()
    except FabricError as error:
        raise RequirementError(str(error)) from None


def _check_root() -> None:
    if os.geteuid() != 0:
        raise RequirementError("Bringing up a fabric needs root: run the same command with sudo.")


def _check_tools(switch: str) -> None:
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            raise RequirementError(f"The command {tool} is missing: run 'apt-get install {package}'.")
    if switch == "bmv2" and shutil.which("simple_switch_grpc") is None:
        raise RequirementError(
            "simple_switch_grpc is missing: install BMv2 (package p4lang-bmv2) or use the embedded switch."
        )


def _check_mininet() -> None:
    if importlib.util.find_spec("mininet") is None:
        hint = (
            "create the virtual environment with --system-site-packages"
            if Path(_DEBIAN_PACKAGES, "mininet").is_dir()
            else "run 'apt-get install mininet'"
        )
        raise RequirementError(f"Python cannot find Mininet: {hint}.")
    try:
        importlib.import_module("mininet.net")
    except ImportError as error:
        raise RequirementError(f"Mininet cannot be loaded ({error}): install the Python package it names.") from None


def _check_kernel() -> None:
    if not Path("/proc/sys/net/ipv6").is_dir():
        raise RequirementError("This kernel has no IPv6: boot without ipv6.disable=1.")
    try:
        namespaces.cookie()
    except OSError:
        raise RequirementError(
            "This kernel is too old to tell namespaces apart: Linux 5.14 or newer is needed."
        ) from None
    try:
        namespaces.run_in_new(_try_veth)
    except OSError as error:
        raise RequirementError(
            f"This kernel does not let us make network namespaces ({error.strerror}):"
            " in a container, start it with --privileged."
        ) from None


def _try_veth() -> None:
    with IPRoute() as netlink:
        try:
            netlink.link("add", kind="veth", ifname="try0", peer={"ifname": "try1"})
        except NetlinkError:
            raise RequirementError("This kernel cannot make veth links: run 'modprobe veth', or use another.") from None
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)) as probe:
            probe.bind(("try0", _ETH_P_ALL))
    except OSError:
        raise RequirementError("This kernel has no packet sockets: run 'modprobe af_packet', or use another.") from None


def _check_mnexec() -> None:
    """Mininet would wait for ever for the shell of a host whose mnexec has failed."""
    tried = children.run(["mnexec", "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if tried.returncode != 0:
        problem = tried.stderr.decode(errors="replace").strip().replace("\n", ", ") or f"status {tried.returncode}"
        raise RequirementError(
            f"mnexec cannot make a host's namespaces ({problem}):"
            " in a container, start it with --privileged; a chroot has to be a mount point."
        )
