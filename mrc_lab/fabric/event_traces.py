"""Event traces of all hosts of an emulated fabric: while they are recorded, each agent writes to a file of its host.

The files belong to this process and are only lent to the agents. However the recording ends, every agent that can be
reached stops writing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from mrc_common import strict_json
from mrc_common.written_files import write_text
from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_lab.errors import ExperimentError

RUN_FILE = "run.jsonl"
TIMEOUT_S = 5.0  # for an agent's answer


@contextlib.contextmanager
def recorded(sockets: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Record what the agents at `sockets`, by host, do meanwhile. ExperimentError, MrcError or OSError if it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        for host, socket in sockets.items():
            controller = stack.enter_context(verbs.open_controller(socket, timeout_s=TIMEOUT_S))
            path = folder / f"{host}.jsonl"
            if path.exists():
                raise ExperimentError(f"{path} exists already", "Record to another folder.")
            controller.trace(path)
            stack.callback(_stop, controller)
        yield


def _stop(controller: verbs.Controller) -> None:
    with contextlib.suppress(MrcError):  # its agent has crashed, which is reported elsewhere
        controller.trace("")


def note_run(folder: Path, began: int) -> None:
    """Write beside the traces that the run, whose times count from there, began at `began` by their clock (ns)."""
    write_text(folder / RUN_FILE, strict_json.dumps({"t": began, "event": "run"}) + "\n")
