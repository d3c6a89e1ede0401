"""A fabric that stays up in the background, with its controller, until it is taken down by name.

:func:`bring_up` starts ``python -m mrc_lab.fabric.daemon`` in a session of its own and waits for what it says: one line
of JSON on its standard output, that the fabric is up or why not. That process then owns the fabric as a prompt or the
demo would: it holds the run directory's lock, its children die with it, and SIGTERM makes it take everything down. So
:func:`take_down` needs no state but the run directory, and works whatever of it has been killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from mrc_common import children
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.supervision import Restarts
from topologies import loader
from topologies.emulation import cleanup, limits
from topologies.emulation.errors import EmulationError
from topologies.emulation.process_watch import Crash
from topologies.emulation.run_directory import RunDirectory
from topologies.errors import FabricError
from topologies.fabric import Fabric

if TYPE_CHECKING:
    from mrc_lab.fabric.emulation import EmulatedWorld

_MODULE = "mrc_lab.fabric.daemon"
_TIMEOUT_S = 20.0


def bring_up(fabric: Fabric, switch: str, controller: Sequence[str] = (), *, restart: bool = False) -> dict[str, Any]:
    """Bring `fabric` up in the background; returns seconds by phase, ``total_s`` being the whole.

    `controller` are further words of the controller's command line. With `restart`, crashed processes are restarted.

    Raises ExperimentError with one sentence when it does not come up; then nothing is left of it.
    """
    with children.popen(
        children.python(_MODULE, switch, "restart" if restart else "", *controller),
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
                owner.stdin.write(loader.dump_text(fabric))
            said = _last_word(owner.stdout.read().splitlines())
        except BaseException:
            owner.terminate()
            owner.wait(_TIMEOUT_S)
            raise
        if "total_s" in said:
            owner.returncode = 0  # it lives on, and is not ours to wait for
            return said
    raise ExperimentError(said["error"], said.get("hint", ""))


def _last_word(lines: list[str]) -> dict[str, Any]:
    """What the owner has said: the last line is JSON, unless it has broken down."""
    with contextlib.suppress(ValueError, IndexError):
        said = json.loads(lines[-1])
        if isinstance(said, dict):
            return said
    why = limits.out_of_descriptors("\n".join(lines)) or (lines[-1] if lines else "it said nothing")
    return {"error": f"the fabric's process has ended: {why}"}


def take_down(name: str) -> bool:
    """Take down the fabric `name`, or what is left of it; tells whether there was anything.

    Raises ExperimentError when it belongs to somebody who is still at work with it.
    """
    owner = RunDirectory(name).owner()
    if owner is not None and not _stands(owner):
        raise ExperimentError(
            f"fabric {name} belongs to process {owner}, a prompt, a demo or an experiment",
            f"End that, or use 'mrc clean --name {name} --force'.",
        )
    there = owner is not None or RunDirectory(name).path.exists()
    return bool(cleanup.clean(name, force=True)) or there


def _stands(pid: int) -> bool:
    """Whether a process is one of ours, or has just ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return True
    return _MODULE.encode() in words or words == [b""]


def main(switch: str, restart: str, *controller: str) -> int:
    """Own a fabric, which standard input describes, until SIGTERM; with a word for `restart`, keep it alive."""
    from mrc_lab.fabric.emulation import running

    try:
        with running(loader.load_text(sys.stdin.read()), switch=switch, controller=controller) as world:
            print(json.dumps(world.bring_up), flush=True)
            _let_go(world.emulation.run.log_file("owner"))
            _look_after(world, bool(restart))
    except ExperimentError as error:
        print(json.dumps({"error": str(error), "hint": error.hint}))
    except (EmulationError, FabricError, OSError) as error:
        print(json.dumps({"error": str(error)}))
    return 1


def _look_after(world: EmulatedWorld, restart: bool) -> None:
    """Tell what dies and maybe start it anew, until a signal ends us; children die with the thread that starts them."""
    assert world.emulation.watch is not None, "a fabric that is up has one"
    crashes: SimpleQueue[Crash] = SimpleQueue()
    world.emulation.watch.listen(crashes.put)
    restarts = Restarts(partial(world.restart, wait=False), _echo)  # another may have died that it needs
    while True:
        crash = crashes.get()
        _echo(f"{crash}. {crash.consequence}")
        if restart:
            restarts.crashed(crash)


def _echo(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


def _let_go(log: Path) -> None:
    """From now on nobody listens: standard output and error go to the log, the folder we came from is free."""
    with log.open("ab") as stream, open(os.devnull, "rb") as nothing:
        for number, file in enumerate((nothing, stream, stream)):
            os.dup2(file.fileno(), number)
    os.chdir("/")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
