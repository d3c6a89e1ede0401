"""What is read of a file that a user names: nothing of pipes, devices and what is too large; all readers ask."""

from __future__ import annotations

import ast
import errno
import os
import random
import socket
from pathlib import Path

import pytest

from mrc_common import named_files
from mrc_common.named_files import NamedFileError
from tests.seeds import SEED

ROOT = Path(__file__).parents[2]
ROOMS = ("controller", "mrc_common", "mrc_host", "mrc_lab", "p4runtime_shim", "p4src", "simulation", "topologies")

_OWN = {
    "mrc_common/named_files.py": "the rule itself",
    "mrc_common/c_build/compiler.py": "a log of our own",
    "mrc_common/c_build/object_cache.py": "of a folder that only we can write to",
    "mrc_common/c_build/shared_object.py": "installed with the project",
    "mrc_common/large_memory.py": "of /sys",
    "controller/fleet.py": "the P4Info that is installed, or named by root beside the program",
    "mrc_common/memory.py": "of /proc",
    "mrc_common/privileges.py": "of /proc",
    "mrc_common/unix_sockets.py": "of /proc",
    "mrc_common/wire_counters.py": "of our own run directory",
    "mrc_host/back_to_back.py": "a log of our own",
    "mrc_host/compiled.py": "installed with the project",
    "mrc_host/libibverbs/build.py": "installed with the project",
    "mrc_lab/telemetry/command.py": "installed with the project",
    "mrc_lab/demo/run.py": "a log of our own",
    "mrc_lab/fabric/cpu_idle.py": "of /proc",
    "mrc_lab/fabric/daemon.py": "of /proc",
    "mrc_lab/fabric/doctor.py": "of /etc and /proc",
    "mrc_lab/fabric/supervision.py": "a log of our own",
    "mrc_lab/prompt/standard_input.py": "standard input, which may be anything",
    "mrc_lab/published/__init__.py": "installed with the project",
    "mrc_lab/published/flow_sizes.py": "installed with the project",
    "mrc_lab/rank/comparison.py": "installed with the project",
    "mrc_lab/sweeps/sweep_folder.py": "opened to append, with a lock",
    "mrc_lab/sweeps/version.py": "installed with the project",
    "mrc_lab/torch_jobs/train_faults/cases.py": "installed with the project",
    "mrc_lab/web/__main__.py": "/dev/null",
    "mrc_lab/web/server.py": "installed with the project",
    "p4runtime_shim/shutdown.py": "of /proc",
    "p4src/__init__.py": "installed with the project",
    "simulation/trace.py": "a temporary file of the swarm",
    "simulation/world.py": "installed with the project",
    "topologies/emulation/halt_polling.py": "of /sys",
    "topologies/emulation/limits.py": "of /proc",
    "topologies/emulation/link_counters.py": "of /proc",
    "topologies/emulation/management.py": "/etc/hosts",
    "topologies/emulation/process_watch.py": "of our own run directory",
    "topologies/emulation/processes.py": "a log of our own",
    "topologies/emulation/run_directory.py": "of our own run directory",
    "topologies/emulation/stopped.py": "of /proc",
}
"""Files that read others than users name, and which."""


def make(kind: str, folder: Path) -> Path:
    """Something of a kind in a folder."""
    path = folder / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(path))
    elif kind == "link to a pipe":
        os.mkfifo(folder / "behind")
        path.symlink_to(folder / "behind")
    elif kind == "too large":
        path.touch()
        os.truncate(path, 1 << 40)
    elif kind == "folder":
        path.mkdir()
    elif kind == "terminal":
        return Path("/dev/ptmx")
    else:
        return Path(kind)
    return path


KINDS = ("pipe", "socket", "link to a pipe", "too large", "folder", "terminal", "/dev/zero", "/dev/full", "/dev/null")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r".") as error:
        named_files.read_bytes(make(kind, tmp_path), 1 << 20)
    assert error.value.strerror, "whoever refuses it says why"


def test_refusals_say_what_it_is(tmp_path: Path) -> None:
    for kind, why in (
        ("pipe", "It is a pipe, not a regular file"),
        ("/dev/zero", "It is a device, not a regular file"),
        ("too large", "It has more than 1 MiB, which is the most"),
        ("folder", os.strerror(errno.EISDIR)),
    ):
        with pytest.raises(OSError, match=r".") as error:
            named_files.read_text(make(kind, tmp_path), 1 << 20)
        assert error.value.strerror == why


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 11)
    real = os.fstat

    def small(descriptor: int) -> os.stat_result:
        about = list(real(descriptor))
        about[6] = 0
        return os.stat_result(about)

    monkeypatch.setattr(os, "fstat", small)
    with pytest.raises(NamedFileError):
        named_files.read_bytes(file, 10)


def test_text_is_read_as_python_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes("a\r\nb\rc\n\xe4".encode())
    assert named_files.read_text(file) == file.read_text("utf-8") == "a\nb\nc\nä"
    file.write_bytes(b"\xff")
    with pytest.raises(UnicodeDecodeError):
        named_files.read_text(file)


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_every_reader_refuses_random_things_in_one_sentence(seed: int, tmp_path: Path) -> None:
    from tests.fuzz.fuzz_named_files import attack

    print("seed", seed)
    attack(random.Random(seed), tmp_path, rounds=60)


def _reads(node: ast.AST) -> bool:
    """Whether a call opens something to read it."""
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    whose = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    if name in ("read_text", "read_bytes"):
        return whose not in ("named_files",) and not (name == "read_text" and node.args and not whose)
    if name != "open" or whose in ("os", "verbs", "self._world", "self._backend", "webbrowser"):
        return False
    modes = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    modes += [key.value.value for key in node.keywords if key.arg == "mode" and isinstance(key.value, ast.Constant)]
    if any(set(mode) & set("wax") and len(mode) <= 3 for mode in modes):
        return False
    return any(set(mode) <= set("rb+t") for mode in modes) or any(
        key.arg in ("encoding", "newline", "errors") for key in node.keywords
    )


def test_every_reader_of_a_named_file_uses_the_rule() -> None:
    """A new reader uses mrc_common.named_files, or is in the list above with what it reads."""
    found = {
        str(file.relative_to(ROOT))
        for room in ROOMS
        for file in sorted((ROOT / room).rglob("*.py"))
        if any(map(_reads, ast.walk(ast.parse(file.read_text()))))
    }
    assert found - set(_OWN) == set(), "these read files without mrc_common.named_files"
