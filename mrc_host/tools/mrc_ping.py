"""Ping every path to a NIC, with the output of ping.

    python -m mrc_host.tools.mrc_ping -d /run/mrc/demo/h1.sock h3

Unlike ping, whose packets take whatever path they get, this probes the remote NIC on each path separately, with
endpoint probes (docs/protocol.md §11.5). It needs no queue pair and ignores the paths' states. The exit status is 0
when every path answered, 1 when one never did, and 2 on errors.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv6Address
from typing import Any

from mrc_common.argument_types import seconds, whole_number
from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_host.tools.pinger import PathTally, Pinger, PingPlan, round_trips
from mrc_host.tools.session import ToolError
from mrc_host.verbs_types import DestinationInfo, ProbeEvent

EVERY_PATH, A_PATH_IS_DEAD, CANNOT = 0, 1, 2
PathSwitches = Mapping[int, Sequence[str]]  # by entropy value: the switches of the path, in order
Print = Callable[[str], None]


def parser(prog: str = "python -m mrc_host.tools.mrc_ping") -> argparse.ArgumentParser:
    """The flags, which are ping's where ping has them."""
    arguments = argparse.ArgumentParser(
        prog=prog,
        description="Ping every path to a host's NIC.",
        epilog="Exit status: 0 every path answered, 1 one never did, 2 error. "
        "Example, at a fabric's prompt or as root beside it: mrc_ping -c 3 -i 0.1 h1 h3",
    )
    add = arguments.add_argument
    add("hosts", nargs="+", metavar="HOST", help="optional source host, then the host to ping, by name or address")
    add("-d", "--ib-dev", metavar="SOCKET", help="socket of this host's agent")
    add("-c", "--count", type=whole_number(1), help="probes on each path (default: until interrupted)")
    add("-i", "--interval", type=seconds(0.001), default=1.0, help="seconds between probes of a path (default 1)")
    add(
        "-W",
        "--timeout",
        type=seconds(0.001),
        default=1.0,
        help="seconds to wait for an answer (default 1, at most 60)",
    )
    add("-w", "--deadline", type=seconds(0.001), metavar="S", help="end after S seconds, even with probes unanswered")
    add("-q", "--quiet", action="store_true", help="print only the summary")
    add("--ev", type=_entropy, action="append", metavar="EV", help="only the path with this entropy value; repeatable")
    add("--plane", type=whole_number(), action="append", metavar="N", help="only the paths of this plane; repeatable")
    add("--json", action="store_true", help="print the summary as one JSON object, and nothing else")
    return arguments


def ping(
    options: argparse.Namespace, device: str, destination: str, print_line: Print, switches: PathSwitches | None = None
) -> int:
    """Ping from the NIC with the agent's socket `device`; returns the exit status. Raises MrcError.

    `switches` names the switches of each path, where they are known.
    """
    verbose = not (options.quiet or options.json)
    with verbs.open_controller(device) as controller:
        target = _find(controller, destination)
        plan = _plan(options, target)
        output = _Output(target, switches or {}, print_line)
        pinger = Pinger(controller, target, plan, output.result if verbose else None)
        if not options.json:
            paths, planes = _number(len(plan.evs), "path"), _number(len({t.plane for t in pinger.tallies}), "plane")
            print_line(f"MRC_PING {target.name} ({IPv6Address(target.address)}): {paths} in {planes}")
        took = asyncio.run(_until_interrupted(pinger))
        down = [state.port for state in controller.ports() if not state.up]
    if options.json:
        print_line(json.dumps(output.as_json(pinger.tallies, took)))
    else:
        output.summary(pinger.tallies, took, down)
    return A_PATH_IS_DEAD if any(not tally.answered for tally in pinger.tallies) else EVERY_PATH


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry; returns the exit status."""
    flags = parser()
    options = flags.parse_intermixed_args(arguments)
    if options.ib_dev is None or len(options.hosts) != 1:
        flags.error("give -d SOCKET and one destination")
    try:
        return ping(options, options.ib_dev, options.hosts[0], lambda text: print(text, flush=True))
    except MrcError as error:
        print(f"mrc_ping: {error}", file=sys.stderr)
        return CANNOT


def _find(controller: verbs.Controller, destination: str) -> DestinationInfo:
    """The NIC of that name or address; NotFoundError."""
    with suppress(ValueError):
        address = IPv6Address(destination).packed
        for known in controller.destinations():
            if known.address == address:
                return known
    return controller.destination(destination)


def _plan(options: argparse.Namespace, target: DestinationInfo) -> PingPlan:
    paths = list(zip(target.evs, target.planes, strict=True))
    for ev in options.ev or ():
        if ev not in target.evs:
            raise ToolError(f"No path to {target.name} has the entropy value {ev:#x}; run without --ev to list them.")
    for plane in options.plane or ():
        if plane not in target.planes:
            known = sorted(set(target.planes))
            raise ToolError(f"No path to {target.name} is in plane {plane}: its planes are {known}.")
    chosen = sorted(
        (plane, ev)
        for ev, plane in paths
        if (not options.ev or ev in options.ev) and (not options.plane or plane in options.plane)
    )
    if not chosen:
        raise ToolError("No path has both that entropy value and that plane.")
    if options.timeout > 60:
        raise ToolError("The timeout (-W) can be at most 60 seconds.")
    return PingPlan(tuple(ev for _, ev in chosen), options.count, options.interval, options.timeout, options.deadline)


async def _until_interrupted(pinger: Pinger) -> float:
    """Run it and return the seconds it took; Ctrl-C and SIGTERM end it early and are no error, as with ping."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    task = asyncio.ensure_future(pinger.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError, RuntimeError):  # not the main thread
            loop.add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await task
    return loop.time() - start


class _Output:
    """Prints the results."""

    def __init__(self, target: DestinationInfo, switches: PathSwitches, print_line: Print) -> None:
        self._target = target
        self._switches = switches
        self._print = print_line

    def result(self, number: int, tally: PathTally, event: ProbeEvent) -> None:
        """One probe was answered or timed out."""
        outcome = "no answer" if event.rtt is None else f"time={event.rtt / 1e6:.3f} ms"
        self._print(f"{self._target.name}: {self._name(tally)} seq={number} {outcome}")

    def summary(self, tallies: Sequence[PathTally], took: float, down: Sequence[int]) -> None:
        """The table of paths, the totals, and which paths are dead."""
        write = self._print
        write(f"\n--- {self._target.name} mrc_ping statistics ---")
        switches = {tally.ev: self._switch_names(tally) for tally in tallies}
        width = max(8, *map(len, switches.values()))
        write(
            f"plane  {'EV':<10}  {'switches':<{width}}  {'sent':>6}  {'answered':>8}  {'loss':>6}"
            "  rtt min/avg/max/mdev (ms)"
        )
        for tally in tallies:
            write(
                f"{tally.plane:>5}  0x{tally.ev:08x}  {switches[tally.ev]:<{width}}  {tally.sent:>6}"
                f"  {tally.answered:>8}  {tally.loss:>6.1%}  {_milliseconds(tally.rtts)}"
            )
        sent, answered = (sum(getattr(tally, name) for tally in tallies) for name in ("sent", "answered"))
        loss = 1 - answered / sent if sent else 0.0
        write(f"{sent} probes sent, {answered} answered, {loss:.1%} loss, time {took * 1000:.0f} ms")
        times = [rtt for tally in tallies for rtt in tally.rtts]
        if times:
            known = all(tally.service_time_known for tally in tallies)
            write(
                f"rtt min/avg/max/mdev = {_milliseconds(times)} ms,"
                f" processing at {self._target.name} {'excluded' if known else 'included'}"
            )
        for port in down:
            write(f"our port of plane {port} has no link")
        for tally in tallies:
            if tally.sent and not tally.answered:
                write(f"never answered: {self._name(tally)}")
        if any(0 < tally.answered < tally.sent for tally in tallies):
            write(
                "on paths with some answers the missing ones may have been lost on the way back:"
                f" {self._target.name} chooses the reverse paths"
            )

    def as_json(self, tallies: Sequence[PathTally], took: float) -> dict[str, Any]:
        """The summary as a JSON value; times in nanoseconds, loss from 0 to 1."""
        return {
            "destination": self._target.name,
            "address": str(IPv6Address(self._target.address)),
            "seconds": round(took, 6),
            "paths": [
                {
                    "plane": tally.plane,
                    "ev": tally.ev,
                    "switches": list(self._switches.get(tally.ev, ())),
                    "way": list(self._switches.get(tally.ev, ())),  # the old name of "switches"
                    "sent": tally.sent,
                    "answered": tally.answered,
                    "loss": tally.loss,
                    "rtt_ns": _as_json(tally.rtts),
                    "service_time_subtracted": bool(tally.rtts) and tally.service_time_known,
                }
                for tally in tallies
            ],
        }

    def _switch_names(self, tally: PathTally) -> str:
        names = [name.partition("@")[0] for name in self._switches.get(tally.ev, ())]  # the plane has a column
        return " > ".join(names) or "-"

    def _name(self, tally: PathTally) -> str:
        switches = f" {self._switch_names(tally)}" if tally.ev in self._switches else ""
        return f"plane {tally.plane}{switches} ev=0x{tally.ev:08x}"


def _number(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _milliseconds(times: list[int]) -> str:
    trips = round_trips(times)
    if trips is None:
        return "-"
    values = (trips.minimum, trips.average, trips.maximum, trips.mdev)
    return "/".join(f"{value / 1e6:.3f}" for value in values)


def _as_json(times: list[int]) -> dict[str, float] | None:
    trips = round_trips(times)
    if trips is None:
        return None
    return {"min": trips.minimum, "avg": trips.average, "max": trips.maximum, "mdev": trips.mdev}


def _entropy(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an entropy value such as 0x401") from None


if __name__ == "__main__":
    sys.exit(main())
