"""The Mininet prompt with commands for what Mininet does not know: NICs, paths, verified writes, faults.

Every command opens the controller's service for itself and closes it again, so that no gRPC channel is open when the
prompt forks a host's command. The queue pairs of a write stay, so that their paths can be looked at and the next write
between the same hosts finds them as they are. An error is one sentence; the prompt goes on.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import closing
from typing import IO, Any

from mininet.cli import CLI
from rich import box
from rich.console import Console
from rich.table import Table

from controller.errors import ControllerError
from experiments.cli import fault_command, map_command
from experiments.cli.fault_completion import next_words
from experiments.emulation import EmulatedWorld
from experiments.errors import ExperimentError
from experiments.perf.prompt import PerfCommands
from experiments.workloads.verified_write import Transfer, parse_size, planes_text
from mrc_host import verbs
from mrc_host.agent.connection import AgentConnection
from mrc_host.errors import MrcError
from topologies.addressing import EV_PLANE_SHIFT
from topologies.emulation.errors import EmulationError
from topologies.errors import FabricError

_ERRORS = (ControllerError, EmulationError, ExperimentError, FabricError, MrcError, OSError, ValueError)


class Prompt(PerfCommands, CLI):  # type: ignore[misc]
    """The prompt over a fabric that is up. `failed` tells whether any of our commands has failed."""

    prompt = "mrc> "

    def __init__(self, world: EmulatedWorld, console: Console, stdin: IO[str]) -> None:
        self._world = world
        self._console = console
        self._talk = False
        self._nics: dict[str, verbs.Context] = {}
        self._transfers: dict[tuple[str, str], Transfer] = {}
        self.failed = False
        super().__init__(world.emulation.net, stdin=stdin)

    def run(self) -> None:
        """Called by Mininet's constructor; the conversation starts with :meth:`converse`."""
        if self._talk:
            super().run()

    def converse(self) -> None:
        """Prompt until the user leaves."""
        self._talk = True
        self.run()

    def close(self) -> None:
        """Give back what writes have left on the NICs."""
        self._forget(*self._nics)

    # Commands

    def do_write(self, line: str) -> None:
        """Write between two NICs and verify every byte: write SOURCE DESTINATION SIZE, as in ``write h1 h3 64M``."""
        self._guarded(self._write, line, "write h1 h3 64M", 3, 3)

    def do_qps(self, line: str) -> None:
        """Show the queue pairs of all hosts or of one, with their counters: qps [HOST]."""
        self._guarded(self._qps, line, "qps h1", 0, 1)

    def do_evs(self, line: str) -> None:
        """Show the state of every path of a host's queue pairs: evs HOST."""
        self._guarded(self._evs, line, "evs h1", 1, 1)

    def do_links(self, line: str) -> None:
        """Show state and traffic of all links or of those that match: links [PATTERN], as in ``links t0-0:t1-*@p1``."""
        self._guarded(self._links, line, "links t0-0:t1-*@p1", 0, 1)

    def do_fault(self, line: str) -> None:
        """Make a fault, list them or clear them; names may be patterns.

        fault LINK down|loss|corrupt|rate|delay ... [TOWARDS] | fault LINK flap PERIOD [DUTY] [random [SEED]]
        fault SWITCH silent|dead | fault path EV [SHARE [FROM [TO]]]; behind each: [at +TIME] [for TIME] [owner NAME]
        fault LINK up | fault list [all] | fault clear ID...|all|owner NAME|link NAME
        """
        self._guarded(self._fault, line, "fault t0-0:t1-2@p1 down", 1, 100)

    def do_map(self, line: str) -> None:
        """Show which links and switches lose packets, as the hosts' probes tell.

        map [SECONDS] | map rate NUMBER | map deny | map allow | map stop
        """
        self._guarded(self._map, line, map_command.EXAMPLE, 0, 2)

    def _write(self, source: str, destination: str, size: str) -> None:
        nbytes = parse_size(size)
        if source == destination:
            raise ExperimentError("a write goes from one host to another")
        try:
            report = self._transfer(source, destination).write(nbytes)
        except (MrcError, ExperimentError):
            self._forget(source, destination)
            raise
        verdict = "every byte right" if not report.wrong_bytes else f"{report.wrong_bytes} BYTES WRONG"
        self.failed |= report.wrong_bytes > 0
        counters = report.counters
        self._say(
            f"{source} -> {destination}: {nbytes} bytes in {report.seconds:.3f} s,"
            f" {report.bits_per_second / 1e6:.1f} Mbit/s, {verdict}\n"
            f"paths in use: {planes_text(report.paths)}; packets sent {counters.data_sent},"
            f" lost {counters.lost}, retransmitted {counters.retransmitted}"
        )

    def _transfer(self, source: str, destination: str) -> Transfer:
        """The transfer between two hosts. It is kept, so that its paths and counters can be looked at afterwards."""
        ends = (source, destination)
        if ends not in self._transfers:
            for host in ends:
                if host not in self._nics:
                    self._nics[host] = verbs.open(self._socket(host))
            self._transfers[ends] = Transfer(self._nics[source], self._nics[destination])
        return self._transfers[ends]

    def _forget(self, *hosts: str) -> None:
        """Close what we have on some NICs after something failed there, and the transfers that used it."""
        for ends in [ends for ends in self._transfers if set(ends) & set(hosts)]:
            del self._transfers[ends]
        for host in hosts:
            if host in self._nics:
                self._nics.pop(host).close()

    def _qps(self, host: str | None = None) -> None:
        table = _table("host", "QP", "type", "remote", "state", "sent", "resent", "lost", "received", "client")
        for name in self._hosts(host):
            for qp in self._ask(name, "qps"):
                counters = qp["counters"]
                client = qp["client"].partition("(")[2].rstrip(")") or qp["client"]  # program and process id
                numbers = (counters[key] for key in ("data_sent", "retransmitted", "lost", "data_received"))
                table.add_row(
                    name, str(qp["qpn"]), qp["type"], qp["remote"] or "-", qp["state"], *map(str, numbers), client
                )
        self._show(table, "no queue pairs: a write makes them")

    def _evs(self, host: str) -> None:
        table = _table("QP", "remote", "EV", "plane", "uplink", "state", "active")
        with closing(AgentConnection(self._socket(host))) as agent:
            for qp in agent.request("qps"):
                for path in agent.request("qp_paths", qpn=qp["qpn"]):
                    uplink = path["ev"] & ((1 << EV_PLANE_SHIFT) - 1)
                    active = "yes" if path["active"] else "no"
                    table.add_row(
                        str(qp["qpn"]), qp["remote"] or "-", f"0x{path['ev']:08x}", str(path["plane"]), str(uplink),
                        path["state"], active,
                    )  # fmt: skip
        self._show(table, f"{host} has no queue pairs: 'write {host} ...' makes one")

    def _links(self, pattern: str = "") -> None:
        table = _table("link", "state", "lower end", "upper end", "bytes up", "bytes down", "faults")
        with self._world.controller() as controller:
            for link in controller.links(pattern):
                state = "up" if link.up else "DOWN"
                ends = link.lower.interface, link.upper.interface
                traffic = str(link.upward.bytes), str(link.downward.bytes)
                table.add_row(link.name, state, *ends, *traffic, " ".join(link.fault_ids))
        self._show(table, "no links")

    def _fault(self, *words: str) -> None:
        with self._world.controller() as controller:
            self._say(fault_command.carry_out(controller, words))

    def _map(self, *words: str) -> None:
        with self._world.controller() as controller:
            map_command.carry_out(controller, self._world.fabric, words, self._say)

    # Completion of names

    def complete_write(self, text: str, *_: Any) -> list[str]:
        """Hosts."""
        return [name for name in self._world.fabric.nic_names if name.startswith(text)]

    complete_evs = complete_write
    complete_qps = complete_write

    def complete_fault(self, text: str, line: str, begin: int, _end: int) -> list[str]:
        """Links and switches, what can be done to them, and so on to the end of the line."""
        # readline takes ':' and '@' for word boundaries, so what it completes is only the end of the link's name
        words = line[:begin].split()[1:]
        typed = "" if not words or line[begin - 1 : begin].isspace() else words.pop()
        names = next_words(self._world.fabric, words)
        return [name[len(typed) :] for name in names if name.startswith(typed + text)]

    # Means

    def _guarded(self, command: Callable[..., None], line: str, example: str, least: int, most: int) -> None:
        """Run a command on the words of a line; whatever goes wrong is one sentence."""
        try:
            words = shlex.split(line)
            if not least <= len(words) <= most:
                raise ExperimentError(f"use it like this: {example}")
            command(*words)
        except _ERRORS as error:
            self.failed = True
            self._say(str(error))

    def _hosts(self, name: str | None) -> list[str]:
        return list(self._world.fabric.nic_names) if name is None else [self._world.fabric.nic(name).name]

    def _socket(self, host: str) -> str:
        return self._world.emulation.socket(host)

    def _ask(self, host: str, operation: str) -> Any:
        with closing(AgentConnection(self._socket(host))) as agent:
            return agent.request(operation)

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _show(self, table: Table, if_empty: str) -> None:
        if table.row_count:
            self._console.print(table)
        else:
            self._say(if_empty)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table
