"""A folder that a command fills over several calls: what is done stays, and another call runs only what is missing.

A file in it, the *claim*, says what the folder holds, so that a call for something else is refused. While somebody
fills the folder, the lock on the claim keeps others out; the kernel drops it with the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrc_common import named_files, strict_json
from mrc_lab.errors import ExperimentError


@dataclass(frozen=True, slots=True)
class FolderClaim:
    """A claim: the file's `name`, what it says (`content`, plain JSON), and words for those whom it refuses.

    `folders` are those in which results are stored. `filler` is who fills such a folder, `difference` follows the path
    of a folder that has another claim, and `remedy` says what to do then.
    """

    name: str
    content: Mapping[str, Any]
    folders: Sequence[str]
    filler: str
    difference: str
    remedy: str


@contextlib.contextmanager
def claimed(path: Path, claim: FolderClaim) -> Iterator[None]:
    """Hold the folder, made if need be with all that belong into it.

    ExperimentError when it holds something else, is in use, or cannot be written.
    """
    try:
        if path.exists() and any(path.iterdir()) and not (path / claim.name).exists():
            raise ExperimentError(f"{path} holds something else", "Choose another --output.")
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / claim.name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _no_place(path, error) from None
    try:
        _lock(path, claim, descriptor)
        _check(path, claim, descriptor)
        yield
    finally:
        os.close(descriptor)


def unwritable(place: Path, error: OSError) -> ExperimentError:
    """What to raise when a result cannot be stored in a claimed folder."""
    why = os.strerror(error.errno) if error.errno else str(error)
    return ExperimentError(
        f"{place} cannot be written: {why}", "Fix that; repeating the command runs only what is missing."
    )


def _lock(path: Path, claim: FolderClaim, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ExperimentError(
            f"{path} is being filled by another {claim.filler}", "Wait for it, or choose another --output."
        ) from None


def _check(path: Path, claim: FolderClaim, descriptor: int) -> None:
    """Write the claim into a new folder, or compare it with the one that is there."""
    text = os.read(descriptor, named_files.MAX_LINE)
    places = [path / folder for folder in claim.folders]
    try:
        for place in places:
            place.mkdir(exist_ok=True)
        if not text and not any(any(place.iterdir()) for place in places):
            _write(descriptor, strict_json.dumps(claim.content, indent=1).encode() + b"\n")
            return
    except OSError as error:
        if not text:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)  # half a claim would refuse the call that repeats this one
        raise _no_place(path / claim.name, error) from None
    try:
        there = strict_json.loads(text.decode())
    except ValueError:
        there = None
    if there != claim.content:
        raise ExperimentError(f"{path} {claim.difference}", claim.remedy)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _no_place(path: Path, error: OSError) -> ExperimentError:
    return ExperimentError(f"{path} cannot be written: {error.strerror}", "Choose another --output.")
