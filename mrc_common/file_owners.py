"""Trust in files that are executed here, often as root: owner, mode, and all folders above."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Collection
from pathlib import Path


def exposed_part(place: Path, trusted: Collection[int] = ()) -> tuple[Path, str] | None:
    """The first of an existing file or folder and the folders above it that others may change, and who may.

    None if nobody else may. The user itself, root, and the users with the numbers `trusted` are not others. In folders
    with the sticky bit, but for the one that `place` is in, others can only add files.
    """
    place = place.resolve()
    for part in (place, *place.parents):
        if os.path.lexists(part):
            who = other_writer(part.stat(), shared=part not in (place, place.parent), trusted=trusted)
            if who:
                return part, who
    return None


def other_writer(info: os.stat_result, *, shared: bool = False, trusted: Collection[int] = ()) -> str | None:
    """Who else may change a file or folder; in a `shared` folder with the sticky bit, others can only add files."""
    if info.st_uid not in (0, os.geteuid(), *trusted):
        return f"user {info.st_uid}"
    if shared and info.st_mode & stat.S_ISVTX:
        return None
    if info.st_mode & stat.S_IWOTH:
        return "everybody"
    if info.st_mode & stat.S_IWGRP and not _private_group(info):
        return f"group {info.st_gid}"
    return None


def _private_group(info: os.stat_result) -> bool:
    """True for root's group, and for the owner's private group that many distributions create."""
    try:
        group, owner = grp.getgrgid(info.st_gid), pwd.getpwuid(info.st_uid).pw_name
    except KeyError:
        return False
    return info.st_gid == 0 or (group.gr_name == owner and set(group.gr_mem) <= {owner})
