"""A fabric that stays up in the background, with its controller, until it is taken down by name.

:func:`bring_up` starts ``python -m mrc_lab.fabric.daemon`` in a session of its own and waits for its result: one line
of JSON on standard output, that the fabric is up or why not. That process then owns the fabric as a prompt or the
demo would: it holds the run directory's lock, its children end with it, and on SIGTERM it takes everything down. So
:func:`take_down` needs no state but the run directory, and works whatever processes of the fabric have been killed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from mrc_common import children, strict_json
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric import bring_up_progress, restart_requests
from mrc_lab.fabric.restart_requests import RestartRequest
from mrc_lab.fabric.supervision import Restarts
from topologies import loader
from topologies.emulation import cleanup, limits, wire_kind
from topologies.emulation.errors import EmulationError
from topologies.emulation.process_watch import Crash
from topologies.emulation.run_directory import RunDirectory
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.p4_program import P4Program

if TYPE_CHECKING:
    from mrc_lab.fabric.emulation import EmulatedWorld

_MODULE = "mrc_lab.fabric.daemon"
_TIMEOUT_S = 20.0


def bring_up(
    fabric: Fabric,
    switch: str,
    controller: Sequence[str] = (),
    *,
    wire: str = wire_kind.DEFAULT,
    restart: bool = False,
    management_network: bool = True,
    nic_settings: Mapping[str, Any] | None = None,
    program: P4Program | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Bring `fabric` up in the background; returns seconds by phase, ``total_s`` being the whole.

    `controller` are further words of the controller's command line. With `restart`, crashed processes are restarted.
    Without `management_network` the hosts reach each other through the fabric alone. `nic_settings` are fields of
    `mrc_host.config.TransportSettings`, as JSON has them. With `program` the switches run that instead of the fabric's
    own. `progress` gets the share that is done, from another thread.

    Raises ExperimentError if it does not come up; then nothing is left of it.
    """
    with children.popen(
        children.python(
            _MODULE,
            switch,
            wire,
            "restart" if restart else "",
            "management" if management_network else "",
            strict_json.dumps(dict(nic_settings or {})),
            *controller,
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError), owner.stdin:
                parts = {"fabric": loader.dump_text(fabric), "program": None if program is None else asdict(program)}
                owner.stdin.write(strict_json.dumps(parts))
            with bring_up_progress.reported(fabric, progress):
                result = _result(owner.stdout.read().splitlines())
        except BaseException:
            owner.terminate()
            owner.wait(_TIMEOUT_S)
            raise
        if "total_s" in result:
            owner.returncode = 0  # it keeps running, and is not ours to wait for
            return result
    raise ExperimentError(result["error"], result.get("hint", ""))


def _result(lines: list[str]) -> dict[str, Any]:
    """The owner's result: its last line of output, as JSON, unless it has crashed."""
    with contextlib.suppress(ValueError, IndexError):
        result = strict_json.loads(lines[-1])
        if isinstance(result, dict):
            return result
    why = limits.out_of_descriptors("\n".join(lines)) or (lines[-1] if lines else "it printed nothing")
    return {"error": f"the fabric's process has ended: {why}"}


def take_down(name: str) -> bool:
    """Take down the fabric `name`, or what is left of it; returns whether there was anything.

    Raises ExperimentError if a running prompt, demo or experiment owns it.
    """
    owner = RunDirectory(name).owner()
    if owner is not None and not _is_daemon(owner):
        raise ExperimentError(
            f"fabric {name} belongs to process {owner}, a prompt, a demo or an experiment",
            f"End that, or use 'mrc clean --name {name} --force'.",
        )
    there = owner is not None or RunDirectory(name).path.exists()
    return bool(cleanup.clean(name, force=True)) or there


def _is_daemon(pid: int) -> bool:
    """Whether a process is a daemon of this module, or has just ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return True
    return _MODULE.encode() in words or words == [b""]


def main(switch: str, wire: str, restart: str, management: str, nic_settings: str, *controller: str) -> int:
    """Own a fabric until SIGTERM; with a word for `restart`, keep it alive.

    Standard input has the fabric, and the program of its switches unless it is the fabric's own, as JSON.

    With a word for `management` it has a management network. `nic_settings` is what :func:`bring_up` was given.
    """
    from mrc_lab.fabric.emulation import running

    try:
        parts = strict_json.loads(sys.stdin.read())
        fabric = with_nic_settings(loader.load_text(parts["fabric"]), strict_json.loads(nic_settings))
        program = None if parts["program"] is None else P4Program(**parts["program"])
        with running(
            fabric,
            switch=switch,
            wire=wire,
            controller=controller,
            management_network=bool(management),
            program=program,
        ) as world:
            print(strict_json.dumps(world.bring_up), flush=True)
            _detach(world.emulation.run.log_file("owner"))
            _watch(world, bool(restart))
    except ExperimentError as error:
        print(strict_json.dumps({"error": str(error), "hint": error.hint}))
    except (EmulationError, FabricError, OSError) as error:
        print(strict_json.dumps({"error": str(error)}))
    return 1


def with_nic_settings(fabric: Fabric, given: Mapping[str, Any]) -> Fabric:
    """The fabric with other transport settings of its NICs."""
    settings = fabric.settings
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return replace(fabric, settings=replace(settings, transport=replace(settings.transport, **values)))


def _watch(world: EmulatedWorld, restart: bool) -> None:
    """Log crashes, restart what crashed if `restart`, and what somebody asks for, until a signal ends us.

    This is the main thread's work, since children end with the thread that starts them.
    """
    emulation = world.emulation
    assert emulation.watch is not None, "a fabric that is up has one"
    inbox: SimpleQueue[Crash | RestartRequest] = SimpleQueue()
    emulation.watch.listen(inbox.put)
    restarts = Restarts(
        partial(world.restart, wait=False),  # another that it needs may have crashed
        lambda name: emulation.children[name].process.pid,
        _echo,
    )
    with restart_requests.served(emulation.run, inbox.put):
        while True:
            found = inbox.get()
            if isinstance(found, RestartRequest):
                failure = found.carry_out(world.restart)
                _echo(f"process {found.name} was {f'not restarted: {failure}' if failure else 'restarted on request'}")
                continue
            _echo(f"{found}. {found.consequence}")
            if restart:
                restarts.crashed(found)


def _echo(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


def _detach(log: Path) -> None:
    """Redirect standard output and error to the log, and leave the current folder."""
    with log.open("ab") as stream, open(os.devnull, "rb") as nothing:
        for number, file in enumerate((nothing, stream, stream)):
            os.dup2(file.fileno(), number)
    os.chdir("/")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
