"""Make a group for torch.distributed."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from mrc_lab.torch import nic
from mrc_lab.torch.group_links import GroupLinks
from mrc_lab.torch.options import GroupOptions
from mrc_lab.torch.process_group import MrcProcessGroup
from mrc_lab.torch.reconfiguration import Reconfiguration, new_handle
from mrc_lab.torch.store_exchange import StoreExchange

RECONFIGURE = "enable_reconfigure"


def create_group(given: Any, own: Any) -> MrcProcessGroup:
    """`given` is torch's _DistributedBackendOptions, `own` what the user gave as pg_options.

    The ranks connect in the background, so that several groups may be made in any order. Raises DistBackendError when
    this process has no NIC. Torch versions that know `enable_reconfigure` hand it over in one of the two.
    """
    if own is not None and not (isinstance(own, GroupOptions) or hasattr(own, RECONFIGURE)):
        raise dist.DistBackendError(
            f"pg_options of the backend mrc are an mrc_lab.torch.options.GroupOptions: {own!r}."
        )
    options = own if isinstance(own, GroupOptions) else GroupOptions.from_environment()
    shared = nic.acquire()
    name = str(given.group_id)

    def links(prefix: str, rank: int, world: int) -> GroupLinks:
        store = dist.PrefixStore(prefix, given.store) if prefix else given.store
        exchange = StoreExchange(store, rank, world)
        made = GroupLinks(shared.device, exchange, options.streams, name, options.liveness, shared.isolated)
        shared.groups.add(made)
        return made

    reconfigures = any(getattr(each, RECONFIGURE, False) for each in (own, given))
    return MrcProcessGroup(
        shared.thread,
        links("", given.group_rank, given.group_size),
        given.timeout,
        release=shared.release,
        reconfiguration=Reconfiguration(given.store, new_handle(shared.device.name), links) if reconfigures else None,
    )
