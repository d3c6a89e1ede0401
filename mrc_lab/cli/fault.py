"""``mrc fault``: faults of a local fabric, by name, or of one whose controller listens on the network.

The syntax is that of the prompt's `fault` (:mod:`mrc_lab.commands.fault_command`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from mrc_common.grpc_endpoint import read_token
from mrc_common.suggestions import did_you_mean
from mrc_lab.cli.fabric_argument import ONLY_ONE, complete, fabric_name
from mrc_lab.commands import fault_command
from mrc_lab.commands.fault_completion import kind_of_word, next_words
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.find_fabric import find_controller, find_fabric, the_one

_F = TypeVar("_F", bound=Callable[..., Any])
_PATH = click.Path(path_type=Path)


class _Words(click.ParamType):  # type: ignore[type-arg] # only newer versions of click have one
    """Words of `fault`, completed with the names of the fabric."""

    name = "words"

    def __init__(self, *before: str) -> None:
        self._before = before

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """What may come next."""
        from topologies import loader
        from topologies.emulation.errors import EmulationError
        from topologies.errors import FabricError

        words = ctx.params.get(param.name or "") or ()
        try:
            name, given = _fabric_before(words, the_one(ctx.params.get("by_option") or ()))
            fabric = loader.load_file(find_fabric(name).fabric_file)
        except (ExperimentError, FabricError, EmulationError, OSError, click.UsageError):
            return [] if words else list(complete(ctx, param, incomplete))
        return [CompletionItem(w) for w in next_words(fabric, (*self._before, *given)) if w.startswith(incomplete)]


def _fabric_before(words: Sequence[str], name: str | None) -> tuple[str | None, tuple[str, ...]]:
    """The fabric (named by the first word, or else by the option) and the remaining words.

    The first word names a fabric if it is a file, or the name of a fabric that no fault can start with (a fabric may
    have the same name as a host).
    """
    from mrc_lab.fabric.find_fabric import is_file, is_there, name_of

    first, *more = words or [""]
    alone, behind = kind_of_word(first), kind_of_word(more[0]) if more else None
    is_word = (alone and not alone.target) or (behind and behind.target) or first in ("all", "owner", "link")
    if not is_file(first) and (is_word or not is_there(first)):
        return name, tuple(words)
    if name not in (None, named := name_of(first)):
        raise click.UsageError(f"two fabrics are named, {first} and {name}: give one")
    return named, tuple(more)


def _of_a_fabric(function: _F) -> _F:
    for option in (
        click.option("--tls-ca", type=_PATH, help="CA certificate (PEM) of the controller; turns TLS on."),
        click.option("--token-file", type=_PATH, help="File with the controller's token."),
        click.option("--address", default="", help="The controller's address: host:port, or the path of a socket."),
    ):
        function = option(function)
    return function


class _FaultGroup(click.Group):
    """Explains itself to those who leave out the command, as the prompt's `fault` allows."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments begin with. Raises UsageError that explains how to inject a fault."""
        if args[0] in self.commands or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        hint = did_you_mean(args[0], self.commands).capitalize() or "To inject a fault: mrc fault add [FABRIC] WORDS..."
        raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx)


@click.group(cls=_FaultGroup, epilog="Example: sudo mrc fault add t0-0:t1-2@p1 loss 1%")
def fault() -> None:
    """Inject faults into a fabric that is up, list them, clear them, and watch events.

    Links and switches are named as in 't0-0:t1-2@p1', 'h4@p1' and 't1-0@p0', or by patterns as in 't0-*:t1-0@p0'.
    """


@fault.command(epilog="Example: sudo mrc fault add h1@p0 flap 2s 25% random 7 at +1s for 30s --fabric lab")
@click.argument("words", metavar="[FABRIC] WORDS...", nargs=-1, required=True, type=_Words("add"))
@click.option("--hold", is_flag=True, help="Keep running until interrupted, then clear the fault; also if killed.")
@fabric_name(ONLY_ONE, words=True)
@_of_a_fabric
def add(words: Sequence[str], hold: bool, **where: Any) -> None:
    """Inject a fault."""
    where["name"], words = _fabric_before(words, where["name"])
    try:
        request = fault_command.parse(words)
    except ExperimentError as error:
        raise click.UsageError(str(error)) from None
    if request.note:
        click.echo(f"note: {request.note}", err=True)
    if not hold:
        with _controller(**where) as controller:
            clock = controller.clock()
            click.echo(fault_command.describe(fault_command.add(controller, request), clock))
        return
    owner = request.owner or f"mrc-fault-{os.getpid()}"
    with _controller(**where) as controller, controller.lease(owner):
        clock = controller.clock()
        added = fault_command.add(controller, fault_command.with_owner(request, owner))
        click.echo(fault_command.describe(added, clock))
        click.echo("held; Ctrl-C clears it", err=True)
        while True:
            time.sleep(3600)


add.help = f"Inject a fault.\n\n\b\n{fault_command.kinds()}\n{fault_command.WHEN}"


@fault.command(epilog="Example: mrc fault kinds")
def kinds() -> None:
    """List the kinds of faults, with their syntax and meaning."""
    click.echo(fault_command.kinds())


@fault.command(name="list", epilog="Example: sudo mrc fault list --all --fabric lab")
@click.option("--all", "cleared", is_flag=True, help="Include the most recently cleared faults.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@fabric_name(ONLY_ONE)
@_of_a_fabric
def list_faults(cleared: bool, as_json: bool, **where: Any) -> None:
    """List faults, including scheduled ones."""
    with _controller(**where) as controller:
        click.echo(fault_command.show_list(controller, ["all"] if cleared else [], as_json=as_json))


@fault.command(epilog="Example: sudo mrc fault clear f1 f2, or mrc fault clear all, or mrc fault clear link h1@p0")
@click.argument("which", metavar="[FABRIC] WHICH...", nargs=-1, required=True, type=_Words("clear"))
@fabric_name(ONLY_ONE, words=True)
@_of_a_fabric
def clear(which: Sequence[str], **where: Any) -> None:
    """Clear faults by id, 'all' faults, those of 'owner NAME', or those on 'link NAME'.

    Clearing the faults on a link also brings it up. A fault given by a pattern stays on its other links.
    """
    where["name"], which = _fabric_before(which, where["name"])
    try:
        fault_command.check_clear(which)
    except ExperimentError as error:
        raise click.UsageError(str(error)) from None
    with _controller(**where) as controller:
        click.echo(fault_command.clear(controller, which))


@fault.command(epilog="Example: sudo mrc fault watch --for 60s")
@click.option("--for", "duration", default="", help="How long, as in 60s.  [default: until interrupted]")
@fabric_name(ONLY_ONE)
@_of_a_fabric
def watch(duration: str, **where: Any) -> None:
    """Print events: faults, links that go down and up, switches lost and returned, entries repaired.

    For a local fabric, crashes of its processes are printed too. The exit status is 3 when the controller crashes.
    """
    try:
        seconds = fault_command.parse_duration(duration) / 1e9 if duration else None
    except ExperimentError as error:
        raise click.UsageError(str(error)) from None
    with _controller(**where) as controller, _crashes(**where), controller.events(timeout_s=seconds) as events:
        clock = controller.clock()
        for event in events:
            click.echo(fault_command.describe_event(event, clock))


def _controller(name: str | None, address: str, token_file: Path | None, tls_ca: Path | None) -> Any:
    """A client of the controller that the options select; ExperimentError if there is none.

    Prints a note about stopped processes of its fabric, since requests may wait for them in vain.
    """
    from controller.client import ControllerClient
    from topologies.emulation.stopped import stopped

    token = "" if token_file is None else read_token(token_file)
    if address:
        return ControllerClient(address, token=token, tls_ca=tls_ca)
    run = find_controller(name)
    for one in stopped(run):
        click.echo(f"note: {one}", err=True)
    return ControllerClient(run.controller_socket, token=token)


@contextlib.contextmanager
def _crashes(name: str | None, address: str, **_rest: Any) -> Iterator[None]:
    """Print crashes of a local fabric's processes meanwhile."""
    from topologies.emulation.attach import watching

    if address:
        yield
        return
    with watching(find_controller(name)) as watch:
        watch.listen(lambda crash: click.echo(f"{crash}. {crash.consequence}"))
        yield
