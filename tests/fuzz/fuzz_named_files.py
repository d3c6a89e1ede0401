"""Names of pipes, devices, sockets, links, folders and endless files given to everything that reads a named file.

Each reader returns, or raises its room's error with a message of one line, soon and in little memory.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from controller.errors import ControllerError
from mrc_common.grpc_endpoint import EndpointError, read_token
from mrc_host import plugins
from mrc_host.agent.config_file import load_config
from mrc_host.errors import MrcError
from mrc_host.tools import trace
from mrc_lab.conformance.collection import load_scripts
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.loader import load_file as load_experiment
from mrc_lab.reports.perfetto import json_lines
from mrc_lab.reports.read_table import rows
from mrc_lab.reports.result_folder import read_summary
from mrc_lab.web.recording import read_recordings
from mrc_lab.workloads.schedules.goal import read_goal
from p4runtime_shim import config as switch_config
from p4runtime_shim.config import ConfigError
from topologies.errors import FabricError
from topologies.loader import load_file as load_fabric

MAX_SECONDS = 5.0  # of processor time, for one reader
_REFUSALS = (ControllerError, EndpointError, ExperimentError, FabricError, MrcError, ConfigError)

READERS: dict[str, Callable[[Path], object]] = {
    "fabric": load_fabric,
    "experiment": load_experiment,
    "schedule": read_goal,
    "plugin": lambda path: plugins.load(f"{path}.py" if not str(path).startswith("/dev") else path),
    "token": read_token,
    "agent": load_config,
    "trace": lambda path: list(trace.read(path)),
    "events": lambda path: list(json_lines.events(path)),
    "table": lambda path: list(rows(path, ("x",))),
    "result": lambda path: read_summary(path.parent),
    "recording": read_recordings,
    "scripts": lambda path: load_scripts([path]),
    "switch": switch_config.load_file,
}
DEVICES = ("/dev/zero", "/dev/null", "/dev/full", "/dev/random", "/dev/ptmx")


def make(chance: random.Random, folder: Path) -> Path:
    """Something with a name; also under that name with .py, and as a summary."""
    path = folder / f"f{chance.randrange(1 << 60)}"
    kind = chance.randrange(8)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(path))
    elif kind == 2:
        path.symlink_to(chance.choice((*DEVICES, "nowhere", path.name)))
    elif kind == 3:
        path.touch()
        os.truncate(path, 1 << chance.randrange(30, 42))
    elif kind == 4:
        path.mkdir()
    elif kind == 5:
        path.write_bytes(chance.randbytes(chance.randrange(200)))
    elif kind == 6:
        path.write_text("\0" * chance.randrange(3) + "x: " + "[" * chance.randrange(200))
    else:
        return Path(chance.choice(DEVICES))
    for other in (Path(f"{path}.py"), folder / "summary.json"):
        other.unlink(missing_ok=True)
        other.symlink_to(path)
    return path


def attack(chance: random.Random, folder: Path, rounds: int = 1) -> None:
    """Give readers such names; AssertionError where one does not refuse them as it should."""
    for _ in range(rounds):
        name, path = chance.choice(list(READERS)), make(chance, folder)
        if name == "plugin" and path.is_file():
            continue  # that is run
        begin, message = time.process_time(), "read"
        try:
            READERS[name](path)
        except _REFUSALS as error:
            message = str(error).strip()
        assert message, f"{name} refuses {path} without a word"
        assert "Traceback" not in message
        took = time.process_time() - begin
        assert took < MAX_SECONDS, f"{name} took {took:.1f} s for {path}"


class Fuzzer:
    """Names in a folder of its own."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mrc-fuzz-"))

    def case(self, chance: random.Random) -> None:
        """One name for one reader."""
        attack(chance, self._folder)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)
