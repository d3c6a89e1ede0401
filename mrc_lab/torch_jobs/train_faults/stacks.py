"""Two ways to form a group of torch.distributed again: gloo's, which is to make another one, and that of our backend.

A stack forms the group of round 0 and, after a failure, that of the next round, of the same process with fewer members.
Its methods raise RuntimeError (of which torch's DistBackendError is one) where torch does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

import torch.distributed as dist

from mrc_common.link_monitor import LinkMonitor
from mrc_lab.torch.options import GroupOptions, ReconfigureOptions
from mrc_lab.torch_jobs.train_faults.survivors import LossReport

_INTERFACE = "GLOO_SOCKET_IFNAME"  # environment, read by gloo
_HOOK = 1


class LabGroup(Protocol):
    """The group of one process, which calls a function of its maker when it has ended after a failure."""

    def form(self, round_number: int, members: Sequence[int]) -> None:
        """Form the group of a round, as torch's default group."""

    def abort(self) -> None:
        """End the group after a failure."""

    def report(self, members: Sequence[int]) -> LossReport:
        """What this rank knows after a failure in the group of `members`."""


class GlooGroup:
    """Gloo over TCP on a port of the fabric: it is made again, over the store, for each round.

    Gloo knows nothing of who is lost, and the kernel knows the port's carrier: a rank whose own port has none stays
    out, as health checks before a restart have it.
    """

    def __init__(self, store: Any, rank: int, timeout: timedelta, aborted: Callable[[], None]) -> None:
        self._store, self._rank, self._timeout, self._aborted = store, rank, timeout, aborted
        self._interface = os.environ[_INTERFACE]

    def form(self, round_number: int, members: Sequence[int]) -> None:
        """Make it; DistBackendError or RuntimeError if a member is not reached in time."""
        dist.init_process_group(
            "gloo",
            store=dist.PrefixStore(f"gloo/{round_number}/", self._store),
            rank=members.index(self._rank),
            world_size=len(members),
            timeout=self._timeout,
        )

    def abort(self) -> None:
        """Close its connections, which fails what is under way here and at the peers."""
        if dist.is_initialized():
            dist.distributed_c10d._get_default_group().abort()
            dist.destroy_process_group()
        self._aborted()

    def report(self, members: Sequence[int]) -> LossReport:
        """Whether the port has a link."""
        monitor = LinkMonitor(lambda _: None)
        try:
            link = monitor.links().get(self._interface)
        finally:
            monitor.close()
        return LossReport(self._rank, fit=link is not None and link.up)


class MrcGroup:
    """Our backend, over MRC or RoCE as MRC_QP_TYPE says: the group is reconfigured, and its NIC says who is lost."""

    def __init__(self, store: Any, rank: int, world: int, timeout: timedelta, aborted: Callable[[], None]) -> None:
        self._rank, self._timeout = rank, timeout
        options = replace(GroupOptions.from_environment(), enable_reconfigure=True)
        dist.init_process_group("mrc", store=store, rank=rank, world_size=world, timeout=timeout, pg_options=options)
        self._group = dist.distributed_c10d._get_default_group()
        self._group.register_abort_hook(_HOOK, aborted)
        store.set(f"handle/{rank}", self._group.get_reconfigure_handle())
        self._handles = [store.get(f"handle/{number}").decode() for number in range(world)]
        self._watched: Sequence[int] = ()  # the members whose losses the group reports

    def form(self, round_number: int, members: Sequence[int]) -> None:
        """Reconfigure it; DistBackendError if a member does not come."""
        options = ReconfigureOptions(round_number, [self._handles[rank] for rank in members], self._timeout)
        self._group.reconfigure(options).wait()
        self._watched = members

    def abort(self) -> None:
        """Nothing: the failure has ended what was under way and called the hook; reconfiguring ends the rest."""

    def report(self, members: Sequence[int]) -> LossReport:
        """Whom the NIC calls lost."""
        return LossReport(self._rank, frozenset(self._watched[loss.rank] for loss in self._group.lost))
