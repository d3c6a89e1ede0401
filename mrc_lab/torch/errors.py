"""What goes wrong in a group, as torch.distributed raises it."""

from __future__ import annotations

import torch.distributed as dist


def backend_error(message: str) -> Exception:
    """A DistBackendError; the message says which rank of which group failed, and why."""
    error: Exception = dist.DistBackendError(message)
    return error
