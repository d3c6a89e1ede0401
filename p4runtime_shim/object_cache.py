"""The folder of compiled objects: files that are whole, or are not used, in a folder that nobody else can write to.

Whatever lies here is loaded into the switch's process, which is often root's. So the folder, and every one above it,
must belong to us or to root and be closed to others, and every object ends in a hash of what precedes it: a file that
was cut off (a full disk, a power failure between write and rename) is built again instead of loaded. Files are written
beside their place, flushed to the disk and renamed. Those that were not used for longest go when there are many.
"""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import shutil
import stat
import time
from pathlib import Path

from p4runtime_shim.errors import BuildError

KEPT = {"program-*.so": 256, "libengine-*.so": 8}  # files of a kind that stay
_MAGIC = b"mrc-object"
_SEAL = len(_MAGIC) + hashlib.sha256().digest_size
_ABANDONED = 24 * 3600  # seconds after which a folder of a build that was killed is removed


def default_cache() -> Path:
    """$XDG_CACHE_HOME/mrc-testbed, or ~/.cache/mrc-testbed; of root's own home when $HOME belongs to another user."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "mrc-testbed"
    home = Path.home()
    if os.geteuid() == 0 and home.exists() and home.stat().st_uid != 0:
        home = Path(pwd.getpwuid(0).pw_dir)
    return home / ".cache" / "mrc-testbed"


def private_folder(cache: Path) -> Path:
    """The folder of objects in a cache directory, made if need be; BuildError when others can write to it."""
    folder = cache / "switch"
    try:
        for part in (*reversed(folder.parents), folder):
            part.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise BuildError(f"cannot make the cache directory {folder} ({error.strerror}): set XDG_CACHE_HOME") from None
    problem = exposed(cache)
    if problem:
        raise BuildError(problem)
    return folder


def exposed(cache: Path) -> str | None:
    """What is wrong with a cache directory, or one above it, that others can write to; None if nothing is."""
    place = (cache / "switch").resolve()
    for part in (place, *place.parents):
        if not os.path.lexists(part):
            continue
        who = _other_writer(part.stat(), shared=part not in (place, place.parent))
        if who:
            return (
                f"{part} can be changed by {who}, and what lies in the cache directory {cache} is run as user"
                f" {os.geteuid()}: remove that folder, or set XDG_CACHE_HOME to one that only you can write to"
            )
    return None


def _other_writer(info: os.stat_result, *, shared: bool = False) -> str | None:
    """Who else may change a file or folder; in a `shared` folder with the sticky bit others may only add to it."""
    if info.st_uid not in (0, os.geteuid()):
        return f"user {info.st_uid}"
    if shared and info.st_mode & stat.S_ISVTX:
        return None
    if info.st_mode & stat.S_IWOTH:
        return "everybody"
    if info.st_mode & stat.S_IWGRP and not _private_group(info):
        return f"group {info.st_gid}"
    return None


def _private_group(info: os.stat_result) -> bool:
    """True for root's group, and the group of the owner alone that many distributions give each user."""
    try:
        group, owner = grp.getgrgid(info.st_gid), pwd.getpwuid(info.st_uid).pw_name
    except KeyError:
        return False
    return info.st_gid == 0 or (group.gr_name == owner and set(group.gr_mem) <= {owner})


def is_whole(path: Path) -> bool:
    """True for an object as `install` left it; it counts as used now."""
    try:
        with path.open("rb") as file:
            info = os.fstat(file.fileno())
            data = file.read()
        os.utime(path, ns=(time.time_ns(), info.st_mtime_ns))
    except OSError:
        return False
    if not stat.S_ISREG(info.st_mode) or _other_writer(info):
        return False
    body, seal = data[:-_SEAL], data[-_SEAL:]
    return bool(body) and seal == _MAGIC + hashlib.sha256(body).digest()


def install(made: Path, target: Path) -> None:
    """Seal an object and put it in its place, on the disk before it has its name; both in the same file system."""
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
        raise BuildError(f"cannot write {target} ({error.strerror})") from None
    _prune(target.parent)


def _prune(folder: Path) -> None:
    """Remove what was not used for longest; a process that wanted it just now builds it again."""
    for pattern, count in KEPT.items():
        files = sorted(folder.glob(pattern), key=lambda path: _times(path)[0], reverse=True)
        for path in files[count:]:
            path.unlink(missing_ok=True)
    for path in folder.glob("build-*"):
        if _times(path)[1] < time.time() - _ABANDONED:
            shutil.rmtree(path, ignore_errors=True)


def _times(path: Path) -> tuple[float, float]:
    """When it was used (see is_whole), and made."""
    try:
        info = path.stat()
    except FileNotFoundError:
        return 0.0, time.time()
    return info.st_atime, info.st_mtime
