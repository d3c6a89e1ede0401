"""Reconfiguration of a group: the processes that remain, and those that come, form a new one without a restart.

This is the contract of PyTorch 2.14's backends for fault tolerance (torch/csrc/distributed/c10d/Backend.hpp, feature
macro C10D_BACKEND_HAS_RECONFIGURE), modelled on torchcomms'. Every process has a handle, a text that stays the same for
its life. Members exchange their handles by means of their own, and each calls `reconfigure` with the same list, whose
order is that of the ranks, and a number that was not used before.

The old group ends first: its operations fail, and its peers learn how many this rank has done. Then members are called
over in the store. Who calls with another list is found at once, and so is a member that dies meanwhile, as the old
group's peers are watched until the new group's are. Each member leaves word in the store of the generation that it has
formed, since one that has moved on and one that has died look alike to a NIC that has not heard the goodbye. Only then
are the old queue pairs and memory given back: the new group has others, so that no packet of the old one, however late,
can reach it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mrc_common import strict_json
from mrc_lab.errors import TransferError
from mrc_lab.torch.group_links import FailureKind, GroupFailedError, GroupLinks, reason_of
from mrc_lab.torch.stages import AtStage, Stage, pass_stage
from mrc_lab.torch.store_exchange import AsyncStore
from mrc_lab.workloads.liveness import CONNECT_S, LossReason, PeerEvent, PeerLost

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.002, 0.1
RETURN_S = 10.0  # within which a member whose NIC is silent has to call, as one whose links come back does
_HANDLE = re.compile(r"mrc:(?P<host>[^:\s]{1,64}):[0-9a-f]{16}")

NewLinks = Callable[[str, int, int], GroupLinks]
"""Makes the links of a generation, not joined yet: its name in the store, this rank, the number of ranks."""


def new_handle(host: str) -> str:
    """A handle for a process on `host`, unlike that of any other process or group."""
    return f"mrc:{host}:{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class Membership:
    """The members of one generation: handles in the order of ranks, `own` among them."""

    uuid: int
    handles: tuple[str, ...]
    own: str

    @classmethod
    def of(cls, uuid: int, handles: Iterable[str], own: str) -> Membership:
        """What `reconfigure` is called with; a set of handles is put in order. ValueError if it cannot be."""
        ordered = tuple(sorted(handles) if isinstance(handles, (set, frozenset)) else handles)
        for handle in ordered:
            if not isinstance(handle, str) or _HANDLE.fullmatch(handle) is None:
                raise ValueError(
                    f"{handle!r} is no handle of the backend mrc: pass what get_reconfigure_handle returns"
                )
        if len(set(ordered)) < len(ordered):
            raise ValueError("a handle is there twice: every member has one of its own")
        if own not in ordered:
            raise ValueError(f"the handle of this process, {own}, is not among those of the new members")
        return cls(uuid, ordered, own)

    @property
    def rank(self) -> int:
        """Of this process."""
        return self.handles.index(self.own)

    @property
    def digest(self) -> str:
        """The same on all members that have called with the same list."""
        return hashlib.sha256("\n".join(self.handles).encode()).hexdigest()

    def member(self, handle: str) -> str:
        """A member in words."""
        return f"rank {self.handles.index(handle)} ({_HANDLE.fullmatch(handle)['host']})"  # type: ignore[index]


class Reconfiguration:
    """What one process needs to form new generations of a group. `store` is the group's own."""

    def __init__(self, store: Any, handle: str, new_links: NewLinks, at_stage: AtStage = pass_stage) -> None:
        self.handle = handle
        self._store = AsyncStore(store)
        self._new_links = new_links
        self._at_stage = at_stage
        self._used: set[int] = set()
        self._under_way = False
        self._forming: asyncio.Task[GroupLinks] | None = None
        self._members: Membership | None = None  # of the generation that was formed last

    def begin(self, uuid: int, handles: Iterable[str]) -> Membership:
        """The members of the next generation, for :meth:`form`.

        ValueError if they cannot be, if the number was used already, or while another generation is being formed.
        """
        if self._under_way:
            raise ValueError("another reconfiguration of this group is under way")
        if uuid in self._used:
            raise ValueError(f"the uuid {uuid} was already used: give each reconfiguration a number of its own")
        members = Membership.of(uuid, handles, self.handle)
        self._used.add(uuid)
        self._under_way = True
        return members

    async def form(self, old: GroupLinks, members: Membership, timeout_s: float) -> GroupLinks:
        """End the old group and join the new one. GroupFailedError: there is none, and the old one has ended too.

        Its peers are watched until a new one is there, so that another try learns who is lost.
        """
        try:
            return await self._new_or_none(old, members, timeout_s)
        finally:
            self._under_way = False

    async def _new_or_none(self, old: GroupLinks, members: Membership, timeout_s: float) -> GroupLinks:
        former = self._members.handles if self._members is not None else ()
        losses = {former[loss.rank]: loss for loss in old.lost if former}
        forming = _Forming(members, former, losses, self._has_ended)
        task = self._forming = asyncio.ensure_future(self._form(old, forming))
        try:
            links = await asyncio.wait_for(task, timeout_s)
        except asyncio.CancelledError:
            if self._forming is task:
                raise
            reason = "the group was aborted"
        except asyncio.TimeoutError:
            reason = f"Timed out after {timeout_s:g} s{await forming.waits_for()}"
        except Exception as error:
            reason = reason_of(error)
        else:
            self._members = members
            await self._store.leave_word(_formed_key(members.own), members.uuid)
            await old.close(orderly=False)
            return links
        finally:
            self._forming = None
        old.end_by(f"the group has no members, as its reconfiguration failed: {reason}")
        await self._store.leave_word(_key(members, members.own), {"failed": reason})
        raise GroupFailedError(reason)

    async def abort(self) -> None:
        """A generation that is being formed fails, if there is one; returns when what it has is given back."""
        task, self._forming = self._forming, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _form(self, old: GroupLinks, forming: _Forming) -> GroupLinks:
        members = forming.members
        await self._at_stage(Stage.RETIRE)
        old.retire("the group is being reconfigured", forming.old_peer)
        await self._at_stage(Stage.ROLL_CALL)
        await self._call_roll(forming)
        name = f"reconfigure/{members.uuid}/{members.digest}/"
        links = forming.links = self._new_links(name, members.rank, len(members.handles))
        try:
            await links.join()
            await links.watching(CONNECT_S)
            await links.joined()
        except BaseException:
            links.give_up("it could not join", FailureKind.OWN)  # as the others shall not wait for this rank
            await _in_full(links.close(orderly=False))
            raise
        return links

    async def _call_roll(self, forming: _Forming) -> None:
        """Wait until all members have called with the same list. TransferError if one never will."""
        members = forming.members
        await self._store.set(_key(members, members.own), {"members": members.digest})
        loop = asyncio.get_running_loop()
        began, wait = loop.time(), _FIRST_WAIT_S
        while forming.absent:
            for handle in tuple(forming.absent):
                if await self._store.check([_key(members, handle)]):
                    (text,) = await self._store.get([_key(members, handle)])
                    _check_call(members, handle, strict_json.loads(text))
                    forming.absent.remove(handle)
            await self._check_absent(forming, loop.time() - began)
            await asyncio.sleep(wait if forming.absent else 0)
            wait = min(2 * wait, _LONGEST_WAIT_S)

    async def _check_absent(self, forming: _Forming, waited_s: float) -> None:
        """TransferError if a member is absent and will not come."""
        for handle, loss in forming.missed():
            if waited_s >= RETURN_S or await self._has_ended(handle, loss):
                raise TransferError(forming.words(handle))

    async def _has_ended(self, handle: str, loss: PeerLost) -> bool:
        """Whether the process of a member that is lost has ended, as far as its NIC and the store know.

        If it has formed another group after the last one that it had in common with this rank, its old queue pairs are
        gone, too, and its goodbye may not have come, as when links were down.
        """
        if loss.reason is not LossReason.GONE or self._members is None:
            return False
        if not await self._store.check([_formed_key(handle)]):
            return True
        (uuid,) = await self._store.get([_formed_key(handle)])
        return bool(strict_json.loads(uuid) == self._members.uuid)


class _Forming:
    """A generation that is being formed: who has not called yet, and which members the old group's NICs miss.

    `former` are the handles of the old group in rank order, `losses` those of its losses that are known already, and
    `has_ended` says whether a lost member's process has.
    """

    def __init__(
        self,
        members: Membership,
        former: Sequence[str],
        losses: dict[str, PeerLost],
        has_ended: Callable[[str, PeerLost], Awaitable[bool]],
    ) -> None:
        self.members = members
        self._former = former
        self.absent = [handle for handle in members.handles if handle != members.own]
        self.links: GroupLinks | None = None
        self._losses = losses
        self._has_ended = has_ended
        self._tasks: set[asyncio.Task[None]] = set()

    def old_peer(self, event: PeerEvent) -> None:
        """Something has happened to a rank of the old group, meanwhile."""
        if not isinstance(event, PeerLost):
            return
        handle = self._former[event.rank]
        self._losses[handle] = event
        if event.reporter is not None and event.reason is not LossReason.GONE:
            return  # the reporter may have been cut off itself, and its report come late: who has called will connect
        if self.links is not None and handle in self.members.handles:
            task = asyncio.ensure_future(self._end_by(self.links, handle, event))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _end_by(self, links: GroupLinks, handle: str, loss: PeerLost) -> None:
        """The new group is given up for the loss of a member.

        Unless it watches its members itself by now: then one whose old queue pairs are gone may have formed the new
        group and closed the old one, and its goodbye may come late, or never if a plane is dark.
        """
        with contextlib.suppress(RuntimeError):  # without the store the group ends by that
            unreachable = loss.reason is not LossReason.GONE or await self._has_ended(handle, loss)
            if unreachable and not links.watched:
                links.give_up(self.words(handle))

    def missed(self) -> list[tuple[str, PeerLost]]:
        """The absent members that are lost, as far as the old group's NICs know."""
        return [(handle, self._losses[handle]) for handle in self.absent if handle in self._losses]

    async def waits_for(self) -> str:
        """Who is waited for, for the end of a message."""
        if self.links is not None:
            return await self.links.missing()
        absent = ", ".join(map(self.members.member, self.absent))
        return f": no call from {absent}" if absent else ""

    def words(self, handle: str) -> str:
        """Why a member is lost."""
        return f"{self.members.member(handle)} is lost: {self._losses[handle].reason.value}"


async def _in_full(closing: Coroutine[Any, Any, None]) -> None:
    """Wait for `closing`, which goes on to its end if this is cancelled meanwhile, as by a timeout."""
    task = asyncio.ensure_future(closing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise


def _key(members: Membership, handle: str) -> str:
    return f"mrc/reconfigure/{members.uuid}/{handle}"


def _formed_key(handle: str) -> str:
    """Where a member leaves word of the last generation that it has formed."""
    return f"mrc/reconfigure/formed/{handle}"


def _check_call(members: Membership, handle: str, call: Any) -> None:
    """TransferError unless a member has called with the same list, and has not given up since."""
    if "failed" in call:
        raise TransferError(f"{members.member(handle)} has given up: {call['failed']}")
    if call.get("members") != members.digest:
        raise TransferError(
            f"{members.member(handle)} reconfigures with other members: agree on the list, and call with a new uuid"
        )
