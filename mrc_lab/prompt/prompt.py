"""The Mininet prompt with commands for what Mininet does not know: NICs, paths, faults, switches, captures.

Every command opens the controller's or a switch's service for itself and closes it again, so that no gRPC channel is
open when the prompt forks a host's command. An error is a message and perhaps a hint, in whichever command it
occurs; the prompt continues. Ctrl-C ends the running command, Ctrl-D the prompt. When a process of the fabric crashes,
a message says so at once, even while a command is being typed. When the fabric is taken down, the prompt ends.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from shutil import which
from typing import IO, Any

from mininet.cli import CLI
from mininet.log import output
from mininet.util import quietRun
from rich.console import Console
from rich.text import Text

from controller.errors import ControllerError
from controller.switch_reader import table_names
from mrc_common import named_files, units
from mrc_common.suggestions import did_you_mean
from mrc_host.errors import MrcError
from mrc_lab.commands import fault_command, map_command
from mrc_lab.commands.listing import AS_JSON
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric import restart_requests
from mrc_lab.fabric.emulation import EmulatedWorld
from mrc_lab.prompt import completion, standard_input
from mrc_lab.prompt.captures import Captures
from mrc_lab.prompt.command_help import COMMANDS, Help, describe, overview
from mrc_lab.prompt.listing_commands import ListingCommands
from mrc_lab.prompt.mininet_output import mininet_output
from mrc_lab.prompt.perf_commands import PerfCommands, split_words
from mrc_lab.prompt.program_commands import ProgramCommands
from mrc_lab.prompt.transfers import Transfers
from mrc_lab.terminal.notice import print_above
from mrc_lab.terminal.progress import progress
from mrc_lab.terminal.state_colour import RED, coloured
from mrc_lab.workloads.verified_write import losses_text, planes_text
from topologies.emulation import process_watch, processes
from topologies.emulation.errors import EmulationError
from topologies.emulation.stopped import stopped
from topologies.errors import FabricError

_MAX_COMMANDS = 1 << 20  # bytes of a file of commands

_ERRORS = (ControllerError, EmulationError, ExperimentError, FabricError, MrcError, OSError, ValueError)
_WAIT_STEP_S = 0.1
_INTERRUPT_INTERVAL_S = 0.2
_CLOSING_S = 60.0  # how long taking a fabric down may take
_KERNELS = (
    "this measures the hosts' kernels over IPv4, and in the fabric hosts have IPv6 addresses only",
    "For MRC use write_bw; for TCP start it yourself: 'h3 iperf -s -V &', then 'h1 iperf -V -c h3-p0'.",
)


class Prompt(ListingCommands, ProgramCommands, PerfCommands, CLI):  # type: ignore[misc]
    """The prompt on a fabric that is up. `failed` is whether any command has failed, or a process has crashed."""

    prompt = "mrc> "
    identchars = f"{CLI.identchars}-@"  # so that the name of a switch is one word

    def __init__(self, world: EmulatedWorld, console: Console, stdin: IO[str]) -> None:
        self._world = world
        self._console = console
        self._terminal = standard_input.terminal_of(stdin)
        self._talk = False
        self._at_rest = False  # waits for a line
        self._transfers = Transfers(world.emulation.socket)
        self._captures = Captures(world.emulation)
        self.failed = False
        self.fabric_closed = False  # it was taken down by somebody else
        self._left = threading.Event()  # the conversation is over
        self._open = ExitStack()
        self._open.enter_context(mininet_output(console.file, self._on_mininet_error))
        super().__init__(world.emulation.net, stdin=stdin)
        self.use_rawinput = bool(self._terminal)  # without a terminal, lines come from `stdin` and not from sys.stdin
        self._known_dead = set()
        for crash in process_watch.recorded(world.emulation.run):
            self._known_dead.add(crash.pid)
            self._echo(f"*** {_crash_text(crash)}")
        for one in stopped(world.emulation.run):
            self._echo(f"*** {one}")
        if world.emulation.watch is not None:
            world.emulation.watch.listen(self._print_crash)
            world.emulation.watch.listen_closed(self._on_fabric_closed)

    def run(self) -> None:
        """Called by Mininet's constructor; the conversation starts with :meth:`converse`."""
        while self._talk and not self.fabric_closed:
            with self._interruptible(lambda: self._echo("\nInterrupt")):
                self._interrupt_nodes()
                if self.isatty():
                    quietRun("stty echo sane intr ^C")
                self.cmdloop()
                return

    def converse(self) -> None:
        """Prompt until the user leaves."""
        with suppress(ImportError):
            import readline

            readline.set_completer_delims(completion.DELIMITERS)
        self._talk = True
        self._echo("'help' lists the commands, 'exit' or Ctrl-D leaves.")
        self.run()

    def wait_if_closing(self) -> None:
        """Where a command has failed because somebody takes the fabric down, wait for the end of that.

        KeyboardInterrupt, with `fabric_closed` set, when it is down.
        """
        watch = self._world.emulation.watch
        if self.failed and watch is not None and watch.closing():
            self._left.wait(_CLOSING_S)

    def close(self) -> None:
        """Give back what writes have left on the NICs, and end captures."""
        self._left.set()
        with self._open:
            for message in self._captures.close():
                self._echo(message)
            self._transfers.close()

    # Traffic

    def do_write(self, line: str) -> None:
        """See helping."""
        source, destination, size = self._words("write", line, 3, 3)
        for host in (source, destination):
            self._world.fabric.nic(host)
        with progress(f"{source} -> {destination}") as done:
            report = self._transfers.write(source, destination, units.SIZE.word(size), done.report)
        verdict = "every byte right" if not report.wrong_bytes else f"{report.wrong_bytes} BYTES WRONG"
        self.failed |= report.wrong_bytes > 0
        counters = report.counters
        self._echo(
            f"{source} -> {destination}: {report.nbytes} bytes in {report.seconds:.3f} s,"
            f" {units.show_rate(report.bits_per_second)}, {verdict}\n"
            f"paths in use: {planes_text(report.paths)}; packets sent {counters.data_sent},"
            f" {losses_text(counters)}, retransmitted {counters.retransmitted}"
        )

    def do_allreduce(self, line: str) -> None:
        """See helping."""
        size, *flags = self._words("allreduce", line, 1, 40)
        units.SIZE.word(size)
        self.do_all_reduce_perf(shlex.join(["-b", size, "-e", size, *flags]))

    # Faults, captures

    def do_map(self, line: str) -> None:
        """See helping."""
        words = self._words("map", line, 0, 3)
        with self._world.controller() as controller:
            map_command.execute(
                controller, self._world.fabric, words, self._echo if AS_JSON in words else self._echo_states
            )

    def do_fault(self, line: str) -> None:
        """See helping."""
        words = self._words("fault", line, 1, 100)
        with self._world.controller() as controller:
            echo = self._echo if AS_JSON in words else self._echo_states
            echo(fault_command.execute(controller, words))

    def do_restart(self, line: str) -> None:
        """See helping."""
        (pattern,) = self._words("restart", line, 1, 1)
        emulation = self._world.emulation
        for name in restart_requests.processes_of(emulation.run, pattern):
            if emulation.children:  # this process has brought the fabric up
                began = time.monotonic()
                self._world.restart(name)
                seconds = time.monotonic() - began
            else:
                seconds = restart_requests.ask(emulation.run, name)
            self._echo(f"process {name} was restarted in {seconds:.2f} s")

    def do_capture(self, line: str) -> None:
        """See helping."""
        words = self._words("capture", line, 0, 2)
        if not words:
            self._echo("\n".join(map(str, self._captures.running)) or "no capture runs")
        elif words[0] == "stop":
            self._echo("\n".join(self._captures.stop(*words[1:])))
        elif len(words) == 1:
            raise ExperimentError(f"say where to: capture {words[0]} /tmp/link.pcapng")
        else:
            started = self._captures.start(*words)
            self._echo(f"capturing {started.link.name} to {started.file}; 'capture stop' ends it")

    # Mininet's own, where they would stumble here

    def do_link(self, line: str) -> None:
        """See helping."""
        one, other, state = self._words("link", line, 3, 3)
        self._check_nodes(one, other)
        if not self.mn[one].connectionsTo(self.mn[other]):
            raise ExperimentError(f"there is no link between {one} and {other}", "'net' shows what is connected.")
        if state not in ("up", "down"):
            raise ExperimentError(f"a link goes up or down, not {state!r}")
        super().do_link(line)

    def do_switch(self, line: str) -> None:
        """See helping."""
        name, what = self._words("switch", line, 2, 2)
        self._world.fabric.switch(name)
        if what not in ("start", "stop"):
            raise ExperimentError(f"use it like this: {COMMANDS['switch'].example}")
        super().do_switch(line)

    def do_source(self, line: str) -> None:
        """See helping."""
        (file,) = self._words("source", line, 1, 1)
        try:
            lines = named_files.read_text(file, _MAX_COMMANDS).splitlines()
        except (OSError, UnicodeError) as error:
            raise ExperimentError(f"{file} cannot be read: {getattr(error, 'strerror', 'it is no text')}") from None
        for one in lines:
            if self.onecmd(one):
                break

    def do_py(self, line: str) -> None:
        """See helping."""
        self._python(lambda: eval(line, globals(), self.getLocals()))

    def do_px(self, line: str) -> None:
        """See helping."""
        self._python(lambda: exec(line, globals(), self.getLocals()))

    def _python(self, run: Callable[[], object]) -> None:
        """Print what Python makes of a line, None excepted."""
        try:
            result = run()
        except Exception as error:
            raise ExperimentError(f"{type(error).__name__}: {error}") from None
        if result is not None:
            self._echo(result if isinstance(result, str) else repr(result))

    def do_wait(self, line: str) -> None:
        """See helping."""
        self._words("wait", line, 0, 0)
        deadline = time.monotonic() + processes.ready_seconds()
        with self._world.controller() as controller:
            while not (status := controller.status()).ready:
                if time.monotonic() > deadline:
                    raise ControllerError(next(iter(status.problems), "the switches are not ready"))
                time.sleep(_WAIT_STEP_S)
        self._echo(f"all {len(status.switches)} switches hold their entries")

    def do_xterm(self, line: str, term: str = "xterm") -> None:
        """See helping."""
        names = self._words(term, line, 1, 100)
        self._check_nodes(*names)
        self._check_display(term, {"xterm": "xterm", "gterm": "gnome-terminal"}[term])
        super().do_xterm(line, term=term)

    def do_x(self, line: str) -> None:
        """See helping."""
        name, *command = self._words("x", line, 1, 100)
        self._check_nodes(name)
        self._check_display("x", *command[:1])
        super().do_x(line)

    def do_iperf(self, _line: str) -> None:
        """See helping."""
        self._fail(*_KERNELS)

    def do_iperfudp(self, _line: str) -> None:
        """See helping."""
        self._fail(*_KERNELS)

    def do_dpctl(self, _line: str) -> None:
        """See helping."""
        self._fail("dpctl speaks OpenFlow, and these switches speak P4Runtime", "Use 'tables t0-0@p0'.")

    def do_help(self, line: str) -> None:
        """See helping."""
        name = line.strip()
        if not name:
            self._echo(overview())
        elif name in COMMANDS:
            self._echo(describe(COMMANDS[name]))
        elif name in self.mn:
            self._echo(f"a command after {name} runs there: {name} ip -br addr")
        else:
            self._fail(f"there is no command {name!r}", did_you_mean(name, list(COMMANDS)) or "'help' lists them.")

    def default(self, line: str) -> None:
        """A node's command, or nothing known."""
        first = line.split()[0]
        if first in self.mn:
            self._run_on(first, line)
            return
        hint = did_you_mean(first, [*COMMANDS, *self.mn.keys()])
        self._fail(f"*** Unknown command: {first}", hint or "'help' lists what there is.")

    def _run_on(self, name: str, line: str) -> None:
        """Run a node's command. Hosts resolve the names in it; Mininet would put addresses in their place."""
        command = line.strip().removeprefix(name).strip()
        if not command:
            super().default(line)
            return
        node = self.mn[name]
        node.sendCmd(standard_input.shell_line(command, self._terminal))
        with standard_input.terminal_restored(self.stdin):
            self.waitForNode(node)

    # The loop

    def waitForNode(self, node: Any) -> None:  # noqa: N802 (Mininet's name)
        """Wait until a node's command is done, and print what it prints.

        What is typed meanwhile stays in the terminal: the command reads it there, or the prompt does afterwards.
        """
        poll = select.poll()
        for descriptor in (node.stdout.fileno(), node.shell_end):
            poll.register(descriptor, select.POLLIN)
        while node.waiting:
            with self._interruptible(node.sendInt):
                if poll.poll():
                    output(node.monitor())

    @contextmanager
    def _interruptible(self, interrupted: Callable[[], object]) -> Iterator[None]:
        """A Ctrl-C inside calls `interrupted`, unless it is the end of the fabric."""
        try:
            yield
        except KeyboardInterrupt:
            if self.fabric_closed:
                raise
            interrupted()

    def _interrupt_nodes(self) -> None:
        """Interrupt what the nodes still run, after a Ctrl-C."""
        for node in self.mn.values():
            while node.waiting:
                node.sendInt()
                with suppress(EmulationError):
                    node.waitOutput()

    def onecmd(self, line: str) -> bool:
        """Carry out a line; True when it ends the prompt."""
        before, self._at_rest = self._at_rest, False
        try:
            return bool(super().onecmd(line))
        except _ERRORS as error:
            self._fail(str(error), getattr(error, "hint", ""))
        except Exception as error:  # of Mininet's commands, or a mistake of ours: the prompt goes on all the same
            self._fail(f"{line.split()[0]} failed: {str(error) or type(error).__name__}")
        finally:
            self._at_rest = before
        return False

    def cmdloop(self, intro: Any = None) -> None:
        """Prompt and carry out, line after line."""
        self._at_rest = True
        try:
            super().cmdloop(intro)
        finally:
            self._at_rest = False

    # Completion

    def completenames(self, text: str, *_: Any) -> list[str]:
        """The first word: commands and nodes."""
        return completion.first_word(self._world.fabric, text)

    def completedefault(self, text: str, line: str, begin: int, _end: int) -> list[str]:
        """Every further word, of our commands and Mininet's."""
        tables = table_names(self._world.emulation.run.program)
        return completion.further_word(self._world.fabric, tables, line[:begin].split(), text)

    complete_help = completenames

    # Means

    @staticmethod
    def _words(name: str, line: str, least: int, most: int) -> list[str]:
        """The words of a command's line; ExperimentError with its example when there are too few or too many."""
        entry: Help = COMMANDS[name]
        words = split_words(line)
        if not least <= len(words) <= most:
            raise ExperimentError(f"use it like this: {entry.example}", f"'help {name}' says more.")
        return words

    def _on_mininet_error(self) -> None:
        self.failed = True

    def _fail(self, message: str, hint: str = "") -> None:
        self.failed = True
        self._echo(f"{message}\n{hint}" if hint else message)

    def _print_crash(self, crash: process_watch.Crash) -> None:
        """From the watch's thread: a line now, and what was being typed again."""
        if self._left.is_set() or crash.pid in self._known_dead:
            return
        self.failed = True
        message = _crash_text(crash)
        if not (self._at_rest and self._terminal):
            self._console.print(Text(f"*** {message}", RED), soft_wrap=True)
            return
        with self._console.capture() as red:
            self._console.print(Text(f"*** {message}", RED), soft_wrap=True)
        print_above(self._console.file, self.prompt, red.get().rstrip("\n"))

    def _on_fabric_closed(self) -> None:
        """From the watch's thread: say so, and end whatever waits in the main thread."""
        if self._left.is_set():
            return
        self.failed = self.fabric_closed = True
        self._echo(f"\n*** Fabric {self._world.fabric.name} was taken down.")
        main = threading.main_thread().ident or 0
        signal.pthread_kill(main, signal.SIGINT)
        while not self._left.wait(_INTERRUPT_INTERVAL_S):
            if self._at_rest:  # it came just before readline began to wait, which it does not end then
                signal.pthread_kill(main, signal.SIGINT)

    def _check_nodes(self, *names: str) -> None:
        known = list(self.mn.keys())
        for name in names:
            if name not in known:
                raise ExperimentError(
                    f"there is no host or switch {name!r}", did_you_mean(name, known) or "'nodes' lists them."
                )

    @staticmethod
    def _check_display(name: str, *programs: str) -> None:
        if not os.environ.get("DISPLAY"):
            raise ExperimentError(
                f"{name} needs a display and there is none (DISPLAY is not set)",
                "Run the command here, as in 'h1 ip -br addr', or log in with 'ssh -X'.",
            )
        for program in (*programs, "socat"):
            if which(program) is None:
                raise ExperimentError(f"{name} needs the program {program}, which is not installed")

    def _echo_states(self, text: str) -> None:
        self._console.print(coloured(text), soft_wrap=True)

    def _echo(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)


def _crash_text(crash: process_watch.Crash) -> str:
    return f"{crash}\n{crash.consequence} 'restart {crash.name}' restarts it."
