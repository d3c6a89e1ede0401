"""PyTorch in this environment: whether it is there, what it takes, and its installation on request.

It is an extra because of its size, and its CPU build is named by the index that PyTorch keeps for it: the ordinary
index has, for the same version, one that brings gigabytes of CUDA.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from mrc_common import children
from mrc_lab.errors import ExperimentError

SIZE = "200 MB to download, 900 MB on disk"  # of 2.13's CPU build and what it needs
_INDEX = "https://download.pytorch.org/whl/cpu"
_INSTALL = ("install", "--disable-pip-version-check", "torch>=2.13,<2.15", "--index-url", _INDEX)
TORCHFT_SIZE = "4 MB to download, 17 MB on disk"  # of torchft 0.2 and what it needs beside PyTorch
TORCHFT = ("install", "--disable-pip-version-check", "torchft>=0.2,<0.3")
# Where that index cannot be reached pip would say so five times for each of six packages, before it takes what it finds
# by `find-links` and the like.
_QUICKLY = ("--retries", "1", "--root-user-action", "ignore")


def installed() -> bool:
    """Whether PyTorch can be imported."""
    return importlib.util.find_spec("torch") is not None


def require_torch(otherwise: str = "") -> None:
    """ExperimentError that names size and command when PyTorch is not installed; `otherwise` is another way."""
    if not installed():
        raise ExperimentError(
            "PyTorch is not installed here", f"Install its CPU build ({SIZE}): {_command(_INSTALL)}{otherwise}"
        )


def require_torchft() -> None:
    """ExperimentError that names size and command when torchft is not installed; PyTorch is."""
    if importlib.util.find_spec("torchft") is None:
        raise ExperimentError("torchft is not installed here", f"Install it ({TORCHFT_SIZE}): {_command(TORCHFT)}")


def install_torch() -> None:
    """Put PyTorch's CPU build into this environment, by pip; what it makes belongs to whom the environment does."""
    done = children.run(children.python_tool("pip", *_INSTALL, *_QUICKLY))
    owner = os.stat(sys.prefix)
    if os.geteuid() == 0 != owner.st_uid:
        children.run(("chown", "-R", "--no-dereference", "--from=0", f"{owner.st_uid}:{owner.st_gid}", sys.prefix))
    importlib.invalidate_caches()
    if done.returncode or not installed():
        raise ExperimentError("pip could not install PyTorch", "Its last lines say why.")


def _command(pip: Sequence[str]) -> str:
    """A command line of pip, as users type it."""
    python, _, *words = children.python_tool("pip", *pip)
    if Path(python).is_relative_to(Path.cwd()):
        python = os.path.relpath(python)
    return shlex.join((python, *words))
