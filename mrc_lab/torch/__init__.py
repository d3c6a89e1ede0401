"""A backend of torch.distributed named ``mrc``: ``import mrc_lab.torch``, then ``init_process_group("mrc")``.

Importing this module registers the backend and does nothing else, so that torch may do it by itself when it is imported
(entry points of the group ``torch.backends``), on machines without any fabric too. Everything heavier is imported when
the first group is made. docs/pytorch.md is the user's page.
"""

from __future__ import annotations

from typing import Any

NAME = "mrc"


def register() -> None:
    """Make ``mrc`` known to torch.distributed; again does nothing. Never raises: torch calls it at its own import."""
    try:
        import torch.distributed as dist

        if NAME not in dist.Backend.backend_list:
            dist.Backend.register_backend(NAME, _create_group, extended_api=True, devices=["cpu"])
    except (ImportError, AttributeError, RuntimeError):  # no torch, one built without c10d, or one that differs
        return


def _create_group(options: Any, own_options: Any = None) -> Any:
    """What torch.distributed calls for every group with this rank in it."""
    from mrc_lab.torch.create import create_group

    return create_group(options, own_options)


register()
