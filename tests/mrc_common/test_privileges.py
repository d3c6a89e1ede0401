"""What is left to a process after it gave up its privileges, tried in a child."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mrc_common import privileges
from mrc_common.privileges import Capability, PrivilegeError, current, drop

ROOT = os.geteuid() == 0
LANDLOCK = privileges.landlock_version() > 0


def in_child(function: Callable[[], Any]) -> Any:
    """What `function` returns (or the text of what it raises) in a child of this process.

    Made by _Fork(3), which runs no handlers: those of libraries that other tests have loaded start threads in it.
    """
    reading, writing = os.pipe()
    pid = ctypes.PyDLL(None)._Fork()  # keeps the interpreter's lock
    if not pid:
        try:
            result = function()
        except BaseException as error:
            result = f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps(result).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def attempt(action: Callable[[], Any]) -> str:
    """The error of an action, "" if there is none."""
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return ""


def test_no_capability_remains_or_can_be_regained() -> None:
    def child() -> list[Any]:
        left = drop()
        return [left.permitted, left.effective, left.inheritable, left.ambient, left.bounding, left.no_new_privs]

    permitted, effective, inheritable, ambient, bounding, no_new_privs = in_child(child)
    assert (permitted, effective, inheritable, ambient, no_new_privs) == (0, 0, 0, 0, True)
    assert bounding == (0 if ROOT else current().bounding), "who has no CAP_SETPCAP cannot change the bounding set"


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="needs root")
def test_requested_capabilities_are_kept() -> None:
    def child() -> list[int]:
        left = drop(keep=(Capability.NET_RAW, Capability.SYS_PTRACE))
        return [left.permitted, left.effective, left.bounding]

    kept = 1 << Capability.NET_RAW | 1 << Capability.SYS_PTRACE
    assert in_child(child) == [kept, kept, kept]


@pytest.mark.skipif(not LANDLOCK, reason="no Landlock")
def test_files_are_written_where_allowed_and_nowhere_else(tmp_path: Path) -> None:
    inside, outside, emptied = (tmp_path / name for name in ("inside", "outside", "emptied"))
    for folder in (inside, outside, emptied):
        folder.mkdir()
        (folder / "old").write_text("old")
    handed_in = os.open(outside / "handed_in", os.O_WRONLY | os.O_CREAT)

    def child() -> dict[str, str]:
        drop(writable=(inside,), removable=(emptied,))
        return {
            "write inside": attempt(lambda: (inside / "new").write_text("new")),
            "remove inside": attempt((inside / "old").unlink),
            "write emptied": attempt(lambda: (emptied / "old").write_text("new")),
            "remove emptied": attempt((emptied / "old").unlink),
            "make emptied": attempt(lambda: (emptied / "new").write_text("new")),
            "read outside": attempt((outside / "old").read_text),
            "write outside": attempt(lambda: (outside / "old").write_text("new")),
            "make outside": attempt(lambda: (outside / "new").write_text("new")),
            "remove outside": attempt((outside / "old").unlink),
            "truncate outside": attempt(lambda: os.truncate(outside / "old", 0)),
            "link outside": attempt(lambda: (outside / "link").symlink_to("old")),
            "move outside": attempt(lambda: (inside / "new").rename(outside / "moved")),
            "what was open": attempt(lambda: os.write(handed_in, b"text")),
            "execute": attempt(lambda: os.execv("/bin/true", ["true"])),
        }

    result = in_child(child)
    allowed = {"write inside", "remove inside", "remove emptied", "read outside", "what was open"}
    assert {what for what, error in result.items() if not error} == allowed
    assert (outside / "old").read_text() == "old"
    assert (outside / "handed_in").read_text() == "text"


def test_a_process_with_threads_is_refused() -> None:
    def child() -> str:
        stop = threading.Event()
        threading.Thread(target=stop.wait).start()
        try:
            drop()
        except PrivilegeError as error:
            return str(error)
        finally:
            stop.set()
        return ""

    assert in_child(child) == "Privileges are given up before the first thread is started, not after."


def test_without_landlock_other_privileges_are_still_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(privileges, "landlock_version", lambda: 0)

    def child() -> list[Any]:
        left = drop()
        return [left.permitted, left.no_new_privs, attempt(lambda: (tmp_path / "file").write_text("text"))]

    assert in_child(child) == [0, True, ""]


def test_python_imports_still_work_afterwards(tmp_path: Path) -> None:
    """Modules that were not imported before can be: reading is not restricted."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(privileges.__file__).parents[1])!r})\n"
        "from mrc_common.privileges import drop; drop()\n"
        "import xml.dom.minidom, sqlite3, mmap, os, logging\n"
        "mmap.mmap(os.memfd_create('x'), 0) if 0 else print('went on')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == "went on\n", done.stderr


def test_an_application_can_hand_over_its_memory_to_a_process_without_privileges() -> None:
    """What docs/privileges.md decides: with a descriptor of /proc/self/mem neither user nor capabilities matter."""
    memory = ctypes.create_string_buffer(b"hello", 16)
    own = os.open("/proc/self/mem", os.O_RDWR)
    parent = os.getpid()

    def child() -> list[Any]:
        if ROOT:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        drop()
        read = os.pread(own, 5, ctypes.addressof(memory)).decode()
        os.pwrite(own, b"WORLD", ctypes.addressof(memory))
        return [read, attempt(lambda: os.open(f"/proc/{parent}/mem", os.O_RDWR))]

    read, by_number = in_child(child)
    os.close(own)
    assert read == "hello"
    assert memory.value == b"WORLD"
    assert by_number == ("PermissionError" if ROOT or LANDLOCK else by_number)
