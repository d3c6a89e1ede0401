"""Make a group for torch.distributed, or for those who have no use for its registry of groups."""

from __future__ import annotations

from datetime import timedelta
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

    Raises DistBackendError when this process has no NIC. Torch versions that know `enable_reconfigure` hand it over in
    one of the two.
    """
    if own is not None and not (isinstance(own, GroupOptions) or hasattr(own, RECONFIGURE)):
        raise dist.DistBackendError(
            f"pg_options of the backend mrc are an mrc_lab.torch.options.GroupOptions: {own!r}."
        )
    return new_group(
        given.store,
        given.group_rank,
        given.group_size,
        timeout=given.timeout,
        name=str(given.group_id),
        options=own if isinstance(own, GroupOptions) else None,
        reconfigures=any(getattr(each, RECONFIGURE, False) for each in (own, given)),
    )


def new_group(
    store: Any,
    rank: int,
    world: int,
    *,
    timeout: timedelta,
    name: str,
    options: GroupOptions | None = None,
    reconfigures: bool = False,
) -> MrcProcessGroup:
    """One rank of a group that meets in `store`, whose keys are the group's own.

    Without `options` the environment's apply. The ranks connect in the background, so that several groups may be made
    in any order. Raises DistBackendError when this process has no NIC.
    """
    chosen = GroupOptions.from_environment() if options is None else options
    shared = nic.acquire()

    def links(prefix: str, rank: int, world: int) -> GroupLinks:
        exchange = StoreExchange(dist.PrefixStore(prefix, store) if prefix else store, rank, world)
        made = GroupLinks(shared.device, exchange, chosen.streams, name, chosen.liveness, shared.isolated)
        shared.groups.add(made)
        return made

    return MrcProcessGroup(
        shared.thread,
        links("", rank, world),
        timeout,
        release=shared.release,
        reconfiguration=Reconfiguration(store, new_handle(shared.device.name), links) if reconfigures else None,
    )
