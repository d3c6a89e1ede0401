"""Connects a sweep to a Ray cluster, or says why it cannot.

Ray's own way of refusing is not for users: it tries for twenty seconds and says only that it failed, logs its attempts
on standard error, and ends the whole process where the machine it runs on is no node of the cluster. So what can be
seen from outside is looked at first, and then a child process tries.
"""

from __future__ import annotations

import os
import socket
import subprocess
from typing import Any

from mrc_common import children
from mrc_lab.errors import ExperimentError

LOCAL = "local"
_HINT = "Is 'ray start' running there, and is that the head's address, as in 10.0.0.1:6379?"
_TOKEN_HINT = (
    "Put its token into ~/.ray/auth_token, or into a file that RAY_AUTH_TOKEN_PATH names; export RAY_AUTH_MODE=token."
)
_STORE = 100 << 20  # bytes; results are small, and by default Ray takes a third of the memory


def connect(ray: Any, address: str) -> None:
    """Connect this process to the cluster at `address`; ``local`` starts one that listens on loopback only.

    Raises ExperimentError when there is none, or none that takes this process.
    """
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": "critical"}
    if address == LOCAL:
        how |= {"include_dashboard": False, "object_store_memory": _STORE}
    else:
        reach(address)
        _try(address)
    try:
        ray.init(address=address, **how)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise ExperimentError(f"the Ray cluster at {address} cannot be used: {first_line(error)}", _HINT) from None


def load_ray(address: str) -> Any:
    """Ray's module, set before it is imported to stay on loopback when it is to start a cluster here.

    Raises ExperimentError when it is not installed.
    """
    if address == LOCAL:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # the name is Ray's; on Linux it does the same
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise ExperimentError("Ray is not installed", "Install the extra: pip install 'mrc-testbed[ray]'.") from None
    return ray


def first_line(error: Exception) -> str:
    """What an error says, without the pages that Ray puts behind it."""
    return str(error).strip().partition("\n")[0]


def reach(address: str) -> None:
    """Raises ExperimentError when nobody listens at an `address` that is a host and a port."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise ExperimentError(f"no Ray cluster answers at {address}: {why}", _HINT) from None


def _try(address: str) -> None:
    command = children.python("mrc_lab.sweeps.ray_connection_check", address)
    tried = children.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if tried.returncode == 0:
        return
    if "token" in tried.stderr.lower():
        raise ExperimentError(f"the Ray cluster at {address} requires another token", _TOKEN_HINT)
    if "raylet_ipc_client" in tried.stderr:
        raise ExperimentError(
            f"this machine is no node of the Ray cluster at {address}",
            f"Run 'ray start --address={address}' here, or give its Ray Client: ray://HEAD:10001.",
        )
    lines = tried.stderr.strip().splitlines() or [f"Ray ended with status {tried.returncode}"]
    why = next((line for line in lines if line.startswith("refused: ")), lines[-1]).removeprefix("refused: ")
    raise ExperimentError(f"the Ray cluster at {address} cannot be used: {why}", _HINT)
