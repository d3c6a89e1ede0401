"""The checks of ``mrc doctor``: what this machine has, what is missing, and how to fix it.

:func:`examine` yields a :class:`CheckResult` for each requirement. What a fabric cannot do without comes from
``topologies.emulation.requirements``, which tries it for real. A failed check that can be fixed names a :class:`Fix`,
which the caller may apply.
"""

from __future__ import annotations

import enum
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import which

import p4src
from mrc_common import children, large_memory
from mrc_common.c_build.errors import CBuildError
from mrc_common.c_build.object_cache import default_cache, exposed
from mrc_common.memory import available_memory
from mrc_host import c_modules, compiled
from mrc_lab.command_table import LIBIBVERBS_STATE, load
from simulation import core
from topologies.emulation import cleanup, halt_polling, limits, process_watch, requirements, run_directory
from topologies.emulation.errors import EmulationError, RequirementError
from topologies.emulation.run_directory import FabricState
from topologies.emulation.stopped import stopped

_ROOT = Path(__file__).resolve().parents[2]
_INSTALLER = _ROOT / "scripts/install"
DEBIAN_PACKAGES = (
    "mininet", "iproute2", "ethtool", "iputils-ping", "procps", "gcc", "libc6-dev", "libibverbs-dev", "python3-dev"
)  # fmt: skip
_MODULES = ("veth", "af_packet")
_PACKAGES = ("finsy", "grpcio", "protobuf", "pyroute2", "numpy", "matplotlib", "rich", "click")
_MIN_MEMORY = 2 << 30


class Fix(enum.Enum):
    """What can be fixed, in the order in which to do it."""

    INSTALL = "install missing packages"
    MODULES = "load kernel modules"
    POLLING = "let idle processors look for work before they halt"
    PAGES = "give large memory pages of 64 KiB"
    CLEAN = "remove leftovers of crashed runs"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. `fatal`: without this no fabric can be brought up.

    `detail` is what was found, or what does not work without it. `if_not` is the state shown if not `ok`: absent, low,
    or found (although unwanted).
    """

    what: str
    ok: bool
    detail: str
    fatal: bool = False
    fix: Fix | None = None
    if_not: str = "absent"


def examine() -> Iterator[CheckResult]:
    """Do all checks."""
    yield check_system()
    yield _python()
    yield _packages()
    yield from _needs()
    yield _compiler()
    yield _cache()
    yield _c_modules()
    yield _transport()
    yield _simulation_core()
    yield check_kernel_switches()
    yield _processors()
    yield check_idle_processors()
    yield _memory()
    yield check_memory_pages()
    yield _limits()
    yield check_libibverbs()
    yield from _tools()
    yield check_leftovers()
    yield from check_fabrics()


def apply(fix: Fix) -> str:
    """Apply a fix, as root; returns what was done. Raises EmulationError if it failed."""
    if fix is Fix.CLEAN:
        reports = cleanup.clean_all()
        return "; ".join(f"{r.name}: {r.processes} processes, {r.interfaces} interfaces" for r in reports) or "nothing"
    if fix is Fix.MODULES:
        return _run(["modprobe", "-a", *_MODULES])
    if fix is Fix.POLLING:
        halt_polling.turn_on()
        return f"for {halt_polling.USUAL_NS // 1000} us, until this machine is restarted"
    if fix is Fix.PAGES:
        return _allow_larger_pages()
    if _INSTALLER.is_file():
        return _run([str(_INSTALLER), "runtime"])
    _run(["apt-get", "update"])
    _run(["apt-get", "install", "-y", "--no-install-recommends", *DEBIAN_PACKAGES])
    return f"apt-get install {' '.join(DEBIAN_PACKAGES)}"


def _run(command: list[str]) -> str:
    """What a command prints, in one line. Raises EmulationError with its last line if it fails."""
    try:
        done = children.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        raise EmulationError(f"{command[0]} cannot be run: {error.strerror}.") from None
    output = (done.stdout if done.returncode == 0 else done.stderr or done.stdout).strip().splitlines()
    if done.returncode != 0:
        raise EmulationError(output[-1] if output else f"{command[0]} ended with status {done.returncode}.")
    return "; ".join(output) or " ".join(command)


def check_system(os_release: Path = Path("/etc/os-release")) -> CheckResult:
    """Whether this system is supported, by its os-release file."""
    fields = {}
    if os_release.is_file():
        fields = dict(re.findall(r'^(\w+)="?([^"\n]*)', os_release.read_text(), re.MULTILINE))
    name = f"{fields.get('PRETTY_NAME', 'unknown')}, Linux {platform.release()}, {platform.machine()}"
    least = {"debian": 12, "ubuntu": 22}.get(fields.get("ID", ""))
    version = fields.get("VERSION_ID", "").partition(".")[0]
    ok = least is not None and version.isdigit() and int(version) >= least
    return CheckResult("system", ok, name if ok else f"{name}; supported are Debian 12 and Ubuntu 22.04 or newer")


def _python() -> CheckResult:
    version = ".".join(map(str, sys.version_info[:3]))
    return CheckResult("Python", sys.version_info >= (3, 10), f"{version}; 3.10 or newer is needed", fatal=True)


def _packages() -> CheckResult:
    versions = {name: _installed(name) for name in _PACKAGES}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return CheckResult("Python packages", False, f"not installed: {', '.join(missing)}", True, _installation())
    return CheckResult(
        "Python packages", True, ", ".join(f"{name} {version}" for name, version in versions.items()), True
    )


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _needs() -> Iterator[CheckResult]:
    """What a fabric needs. If something is missing, what depends on it cannot be tried."""
    fixes = {"tools": _installation(), "Mininet": _installation(), "kernel": Fix.MODULES}
    found = {
        "P4 program": _program(),
        "root": "network namespaces and raw sockets may be used",
        "tools": "commands of Mininet and of the system are installed",
        "kernel": "network namespaces, veth links, packet sockets and IPv6 work",
        "mnexec": "hosts can be created",
    }
    root = os.geteuid() == 0
    for name, need in requirements.needs():
        if name in ("kernel", "mnexec") and not root:
            yield CheckResult(name, False, "cannot be tried without root", fatal=True)
            continue
        try:
            need()
        except RequirementError as error:
            yield CheckResult(name, False, str(error), True, fixes.get(name))
        except OSError as error:  # a command that an earlier check has reported missing
            yield CheckResult(name, False, str(error), True)
        else:
            yield CheckResult(name, True, found.get(name) or _version_of_mininet(name), fatal=True)


def _program() -> str:
    changed = p4src.changed()
    edited = f"edited ({', '.join(changed)}): compiled whenever a command needs it"
    return edited if changed else "as p4c compiled it"


def _version_of_mininet(name: str) -> str:
    if name != "Mininet":
        return platform.release()
    from mininet.net import VERSION

    return str(VERSION)


def _compiler() -> CheckResult:
    found = next((path for name in ("cc", "gcc", "clang") if (path := which(name))), None)
    if found is None:
        cost = "the embedded switch cannot be compiled: apt-get install gcc libc6-dev"
        return CheckResult("C compiler", False, cost, True, _installation())
    return CheckResult("C compiler", True, _version(found), fatal=True)


def _cache() -> CheckResult:
    folder = default_cache()
    # os.path, because Path.exists() raises if we may not enter a parent folder
    nearest = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    if not os.access(nearest, os.W_OK):
        return CheckResult("compiled switches", False, f"{folder} is not writable: set XDG_CACHE_HOME", fatal=True)
    problem = exposed(folder)
    if problem:
        return CheckResult("compiled switches", False, problem, fatal=True)
    return CheckResult("compiled switches", True, f"cached in {folder}", fatal=True)


def _c_modules() -> CheckResult:
    try:
        for module in c_modules.ALL:
            module.path()
    except CBuildError as error:
        return CheckResult("NIC in C", False, f"no NIC works without its modules in C: {error}", True, _installation())
    return CheckResult("NIC in C", True, "datapath, waiting and rings are compiled from the current sources", True)


def _transport() -> CheckResult:
    if not compiled.available():
        cost = "NICs decide in plain Python, at three times the CPU: apt-get install gcc python3-dev, then make install"
        return CheckResult("transport", False, compiled.outdated() or cost, fix=_installation())
    return CheckResult("transport", True, "compiled from the current sources")


def _simulation_core() -> CheckResult:
    try:
        core.MODULE.path()
    except CBuildError as error:
        return CheckResult("simulation core", False, f"there is no simulation: {error}", fix=_installation())
    return CheckResult("simulation core", True, "compiled from the current sources")


def check_kernel_switches() -> CheckResult:
    """Whether this kernel can be a switch."""
    if os.geteuid() != 0:
        return CheckResult("kernel switches", False, "whether there is --switch kernel cannot be tried without root")
    try:
        requirements.check_srv6()
    except RequirementError as error:
        return CheckResult("kernel switches", False, f"no --switch kernel: {error}")
    return CheckResult("kernel switches", True, "this kernel forwards by uSIDs itself (--switch kernel)")


def _processors() -> CheckResult:
    count = len(os.sched_getaffinity(0))
    return CheckResult(
        "processors", count >= 2, f"{count}; with fewer than 2, rates are low and times vary", if_not="low"
    )


def check_idle_processors() -> CheckResult:
    """Whether small writes have to wait for processors that this virtual machine has given away."""
    polling = halt_polling.polling_ns()
    if halt_polling.is_off(polling):
        cost = "in this virtual machine they halt at once and take long to wake: a small write takes 1.6 times as long"
        return CheckResult("idle processors", False, cost, fix=Fix.POLLING, if_not="low")
    found = (
        "the governor haltpoll is not in use, so there is nothing to set"
        if polling is None
        else f"they look for work for {polling // 1000} us before they halt"
    )
    return CheckResult("idle processors", True, found, if_not="low")


def _memory() -> CheckResult:
    available = available_memory()
    return CheckResult(
        "memory",
        available >= _MIN_MEMORY,
        f"{available / (1 << 30):.1f} GB free; less than 2 may not be enough for the demo",
        if_not="low",
    )


def check_memory_pages() -> CheckResult:
    """Whether simulations with much memory can have larger pages."""
    allowed = large_memory.allowed()
    if allowed is None:
        found = "this kernel has none of 64 KiB, with which simulations of much memory are faster (Linux 6.8)"
        return CheckResult("memory pages", True, found)
    if not allowed:
        cost = "none of 64 KiB: simulations that move much memory are up to 1.3 times as fast with them"
        return CheckResult("memory pages", False, cost, fix=Fix.PAGES)
    return CheckResult("memory pages", True, "simulated memory regions of 1 MiB and more have pages of 64 KiB")


def _allow_larger_pages() -> str:
    try:
        large_memory.allow()
    except OSError as error:
        raise EmulationError(f"{large_memory.SETTING} cannot be changed: {error.strerror}.") from None
    return "for programs that ask for them, until this machine is restarted"


def _limits() -> CheckResult:
    low = ", ".join(limits.out_of_reach())
    cost = "; a fabric with many hosts may fail to come up, and bursts may be lost"
    return CheckResult(
        "limits",
        not low,
        f"too low, and cannot be raised here: {low}{cost}" if low else "high enough, or can be raised",
        if_not="low",
    )


def check_libibverbs() -> CheckResult:
    """Whether other people's programs for RDMA find the NICs of hosts."""
    ok, detail = load(LIBIBVERBS_STATE)()
    return CheckResult("libibverbs", ok, detail)


def _tools() -> Iterator[CheckResult]:
    for command, cost in (
        ("simple_switch_grpc", "no BMv2, so no --switch bmv2: install p4lang-bmv2, see vagrant/provision.sh"),
        ("p4c-bm2-ss", "p4src/ cannot be changed (make p4): install p4lang-p4c, see vagrant/provision.sh"),
        ("tshark", "captures cannot be decoded: apt-get install tshark"),
        ("tcpdump", "no 'h1 tcpdump' (the prompt's 'capture' works without): apt-get install tcpdump"),
    ):
        found = which(command)
        yield CheckResult(command, found is not None, _version(found) if found else cost)


def check_leftovers() -> CheckResult:
    """Whether crashed fabrics left anything behind; also lists the fabrics that are up."""
    by_state: dict[FabricState, list[str]] = {state: [] for state in FabricState}
    for name in run_directory.existing():
        run = run_directory.RunDirectory(name)
        by_state[run.state()].append(name if run.accessible() else f"{name} (another user's: use sudo)")
    left = by_state[FabricState.DOWN]
    orphans = cleanup.orphans() if os.geteuid() == 0 else ()
    if left or orphans:
        what = [f"of {', '.join(left)}"] * bool(left) + [f"{len(orphans)} interfaces"] * bool(orphans)
        return CheckResult(
            "leftovers", False, f"{' and '.join(what)}: run 'sudo mrc clean'", fix=Fix.CLEAN, if_not="found"
        )
    up = [f"up: {name}" for name in by_state[FabricState.UP]]
    return CheckResult(
        "leftovers", True, "; ".join(["none", *up, *(f"unknown: {name}" for name in by_state[FabricState.UNKNOWN])])
    )


def check_fabrics() -> Iterator[CheckResult]:
    """Crashed and stopped processes of the fabrics that are up."""
    for name in run_directory.existing():
        run = run_directory.RunDirectory(name)
        if run.owner() is None:
            continue
        for one in stopped(run):
            yield CheckResult("fabrics", False, f"{name}: {one}", if_not="found")
        for crash in process_watch.recorded(run):
            advice = f"'sudo mrc restart {name} {crash.name}' restarts it"
            yield CheckResult("fabrics", False, f"{name}: {crash}; {advice}", if_not="found")


def _installation() -> Fix | None:
    """By the checkout's installer or, where the testbed came as a wheel, by apt-get."""
    return Fix.INSTALL if _INSTALLER.is_file() or which("apt-get") else None


def _version(command: str) -> str:
    """The command's path and the first version number that it prints."""
    try:
        done = children.run(
            [command, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return f"{command}, which does not run"
    found = re.search(r"\d+\.\d[\w.+-]*", done.stdout + done.stderr)
    return f"{command} {found[0]}" if found else command
