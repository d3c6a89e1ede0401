"""Another user (nobody) runs the ``mrc`` of this checkout, wherever that lies.

Where the checkout, its Python or a folder above lets nobody but its owner in (as /root), the command gets a mount
namespace of its own, in which an empty folder that everybody may enter lies over that one. What the checkout and its
Python hold is bound into it, where it was. ``other_user COMMAND...`` is what runs inside.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mrc_common import children

NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
MRC = Path(sys.executable).with_name("mrc")
NEEDED = {Path(__file__).resolve().parents[2], Path(sys.prefix), Path(sys.base_prefix)}


def mrc(*words: str) -> subprocess.CompletedProcess[str]:
    """Run ``mrc words...`` as nobody to its end."""
    return subprocess.run(
        ["unshare", "--mount", *children.python(__name__, str(MRC), *words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "HOME": "/nonexistent", "XDG_CACHE_HOME": "/tmp"},
    )


def closed(folder: Path) -> Path | None:
    """The topmost folder on the way into `folder`, itself included, that others cannot enter."""
    way = (*reversed(folder.parents), folder)
    return next((each for each in way if not each.stat().st_mode & 0o001), None)


def let_everybody_in() -> None:
    """What is needed can be reached by everybody in this mount namespace."""
    os.umask(0o022)
    hidden = {folder: os.open(folder, os.O_RDONLY) for folder in sorted(NEEDED) if closed(folder) is not None}
    for folder, handle in hidden.items():
        folder.mkdir(parents=True, exist_ok=True)  # over another needed one's closed folder lies a new one already
        while (shut := closed(folder)) is not None:
            _mount(["-t", "tmpfs", "-o", "mode=755", "none", shut])
            folder.mkdir(parents=True, exist_ok=True)
        for name in os.listdir(handle):
            _bind(Path(f"/proc/self/fd/{handle}", name), folder / name, handle)


def _bind(there: Path, here: Path, handle: int) -> None:
    if here.is_symlink():
        return
    if there.is_symlink():
        here.symlink_to(there.readlink())
    elif there.is_dir():
        here.mkdir(exist_ok=True)
        _mount(["--no-canonicalize", "--bind", there, here], handle)
    else:
        here.touch()
        _mount(["--no-canonicalize", "--bind", there, here], handle)


def _mount(arguments: Sequence[str | Path], *handles: int) -> None:
    subprocess.run(["mount", *arguments], pass_fds=handles, check=True)


if __name__ == "__main__":
    let_everybody_in()
    os.execvp(NOBODY[0], [*NOBODY, *sys.argv[1:]])
