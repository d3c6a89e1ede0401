"""Make a group for torch.distributed."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from mrc_lab.torch import nic
from mrc_lab.torch.group_links import GroupLinks
from mrc_lab.torch.options import GroupOptions
from mrc_lab.torch.process_group import MrcProcessGroup
from mrc_lab.torch.store_exchange import StoreExchange


def create_group(given: Any, own: Any) -> MrcProcessGroup:
    """`given` is torch's _DistributedBackendOptions, `own` what the user gave as pg_options.

    The ranks connect in the background, so that several groups may be made in any order. Raises DistBackendError when
    this process has no NIC.
    """
    if own is not None and not isinstance(own, GroupOptions):
        raise dist.DistBackendError(
            f"pg_options of the backend mrc are an mrc_lab.torch.options.GroupOptions: {own!r}."
        )
    options = own or GroupOptions.from_environment()
    shared = nic.acquire()
    exchange = StoreExchange(given.store, given.group_rank, given.group_size)
    name = str(given.group_id)
    links = GroupLinks(shared.device, exchange, options.streams, name, options.liveness, shared.isolated)
    shared.groups.add(links)
    return MrcProcessGroup(shared.thread, links, given.timeout, release=shared.release)
