"""The controller's command line, as ``python -m controller`` takes it and a fabric that comes up builds it.

:func:`companion` is what ``topologies.emulation.bring_up.emulated`` wants among its companions; it needs no gRPC.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mrc_common import children
from topologies.emulation.processes import READY_FD, READY_SECONDS, Command, ready_seconds
from topologies.emulation.run_directory import RunDirectory


def arguments(
    fabric_file: Path,
    switches: str,
    socket: Path,
    *,
    agents: str = "",
    fault_file: Path | None = None,
    program: Path | None = None,
) -> tuple[str, ...]:
    """Command line of a controller that reports on a descriptor when every switch is verified."""
    longest = ready_seconds()
    more = [] if longest == READY_SECONDS else ["--ready-timeout", f"{longest:g}"]
    more += [*(("--agents", agents) if agents else ()), *(("--fault-file", str(fault_file)) if fault_file else ())]
    more += ["--p4", str(program)] if program else []
    return children.python(
        "controller",
        *("--fabric", str(fabric_file)),
        *("--switches", switches),
        *("--socket", str(socket)),
        *("--ready-fd", READY_FD),
        *more,
    )


def companion(run: RunDirectory, switches: str, *, more: Sequence[str] = ()) -> Command:
    """The controller of a fabric that is being brought up; `more` are further words of its command line."""
    agents, faults = str(run.host_socket("{name}")), run.path / "faults.json"
    argv = arguments(
        run.fabric_file, switches, run.controller_socket, agents=agents, fault_file=faults, program=run.program
    )
    return Command("controller", (*argv, *more))
