"""The cache of compiled objects: only complete files are used, from a folder that no other user can write to.

Cached objects are loaded into processes that often run as root. So the folder and all its parents must
belong to us or to root and must not be writable by others, and every object ends in a hash of its content: a truncated
file (a full disk, a power failure between write and rename) is rebuilt instead of loaded. Files are written under a
temporary name, flushed to disk and renamed. The least recently used ones are removed when there are too many.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import time
from collections import Counter
from pathlib import Path

from mrc_common.c_build.errors import CBuildError
from mrc_common.file_owners import exposed_part, other_writer

KEPT = {"program": 256}  # objects kept of a kind, which is the beginning of their names
KEPT_OTHERWISE = 32
_FOLDER = "switch"  # the switch's objects were the first
_MAGIC = b"mrc-object"
_SEAL = len(_MAGIC) + hashlib.sha256().digest_size
_ABANDONED = 24 * 3600  # seconds after which the folder of a killed build is removed


def default_cache() -> Path:
    """$XDG_CACHE_HOME/mrc-testbed, or ~/.cache/mrc-testbed; in root's own home if $HOME belongs to another user."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "mrc-testbed"
    home = Path.home()
    if os.geteuid() == 0 and home.exists() and home.stat().st_uid != 0:
        home = Path(pwd.getpwuid(0).pw_dir)
    return home / ".cache" / "mrc-testbed"


def private_folder(cache: Path) -> Path:
    """The objects' folder in a cache directory, created if necessary; raises CBuildError if others can write to it."""
    folder = cache / _FOLDER
    try:
        for part in (*reversed(folder.parents), folder):
            part.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise CBuildError(f"cannot make the cache directory {folder} ({error.strerror}): set XDG_CACHE_HOME") from None
    problem = exposed(cache)
    if problem:
        raise CBuildError(problem)
    return folder


def exposed(cache: Path) -> str | None:
    """Why a cache directory is unsafe: it, or a parent, is writable by others; None if it is safe."""
    found = exposed_part(cache / _FOLDER)
    if found is None:
        return None
    part, who = found
    return (
        f"{part} is writable by {who}, and files in the cache directory {cache} are executed as user"
        f" {os.geteuid()}: remove that folder, or set XDG_CACHE_HOME to one that only you can write to"
    )


def is_whole(path: Path) -> bool:
    """True for a complete object, as left by `install`; marks it as used."""
    try:
        with path.open("rb") as file:
            info = os.fstat(file.fileno())
            data = file.read()
        os.utime(path, ns=(time.time_ns(), info.st_mtime_ns))
    except OSError:
        return False
    if not stat.S_ISREG(info.st_mode) or other_writer(info):
        return False
    body, seal = data[:-_SEAL], data[-_SEAL:]
    return bool(body) and seal == _MAGIC + hashlib.sha256(body).digest()


def install(made: Path, target: Path) -> None:
    """Append the hash, flush the object to disk and rename it; both paths must be on the same file system."""
    try:
        with made.open("r+b") as file:
            seal = _MAGIC + hashlib.sha256(file.read()).digest()
            file.write(seal)
            os.fchmod(file.fileno(), 0o600)
            file.flush()
            os.fsync(file.fileno())
        made.replace(target)
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise CBuildError(f"cannot write {target} ({error.strerror})") from None
    _prune(target.parent)


def _prune(folder: Path) -> None:
    """Remove the least recently used objects; a process that needs one rebuilds it."""
    files = sorted(folder.glob("*-*.so"), key=lambda path: _times(path)[0], reverse=True)
    seen: Counter[str] = Counter()
    for path in files:
        kind = path.name.rpartition("-")[0]
        seen[kind] += 1
        if seen[kind] > KEPT.get(kind, KEPT_OTHERWISE):
            path.unlink(missing_ok=True)
    for path in (*folder.glob("build-*"), *folder.glob("*.lock")):
        if _times(path)[1] < time.time() - _ABANDONED:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _times(path: Path) -> tuple[float, float]:
    """When it was last used (see is_whole), and created."""
    try:
        info = path.stat()
    except FileNotFoundError:
        return 0.0, time.time()
    return info.st_atime, info.st_mtime
