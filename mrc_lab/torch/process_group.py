"""The process group that torch.distributed talks to: its calls become operations of our communicator.

A call checks its arguments, posts the operation (`operations`) to the NIC's loop and returns its `MrcWork` at once.
The class is a subclass of torch's ProcessGroup, which torch uses as it is, from Python and from C++
(DistributedDataParallel). Tensors are read and written in place wherever they are contiguous (`tensors`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType

from mrc_lab.torch import operations
from mrc_lab.torch.abort_hooks import AbortHooks
from mrc_lab.torch.arguments import check_count, operator_of, own_timeout
from mrc_lab.torch.callback_threads import CallbackThreads
from mrc_lab.torch.group_links import Collective, FailureKind, GroupFailedError, GroupLinks, Message
from mrc_lab.torch.loop_thread import LoopThread
from mrc_lab.torch.monitored_barrier import MonitoredBarrier
from mrc_lab.torch.reconfiguration import Reconfiguration
from mrc_lab.torch.tensors import stage
from mrc_lab.torch.work import MrcWork
from mrc_lab.workloads.liveness import PeerLost

_CPU = torch.device("cpu")
_ERRORS = {
    FailureKind.TIMEOUT: ErrorType.TIMEOUT,
    FailureKind.PEER: ErrorType.REMOTE_ERROR,
    FailureKind.OWN: ErrorType.COMM_ERROR,
}


class MrcProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """One rank of a group. `release` is called when it is destroyed."""

    def __init__(
        self,
        thread: LoopThread,
        links: GroupLinks,
        timeout: timedelta,
        *,
        release: Callable[[], None] = lambda: None,
        reconfiguration: Reconfiguration | None = None,
    ) -> None:
        """With `reconfiguration` the group has no members before the first :meth:`reconfigure`."""
        super().__init__(links.rank, links.world)
        self._thread = thread
        self._links = links
        self._reconfiguration = reconfiguration
        self._timeout = timeout
        self._release = release
        self._closed = False
        self._barriers = 0  # monitored ones
        self._sequence = 0  # collectives
        self._callbacks = CallbackThreads()
        self._hooks = AbortHooks(self._callbacks)
        self._name, self._description = links.name, "undefined"
        # This object is its own backend (_get_backend): what asks C++ for the devices shall find them there.
        self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
        self._register_backend(_CPU, dist.ProcessGroup.BackendType.CUSTOM, None)
        links.on_failure = self._hooks.run
        if reconfiguration is None:
            thread.post(links.join)
        else:
            links.retire("the group has no members yet: call reconfigure")

    # Collectives

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> MrcWork:
        """Combine each tensor over all ranks, in place."""
        return self._collective("all_reduce", operations.all_reduce(tensors, operator_of(opts)), tensors, opts)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> MrcWork:
        """As :meth:`allreduce`."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[torch.Tensor], opts: Any = None) -> MrcWork:
        """Combine each tensor over all ranks, in place on the root alone."""
        operation = operations.reduce(tensors, operator_of(opts), self._root(opts), self._rank)
        return self._collective("reduce", operation, tensors, opts)

    def reduce_scatter_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> MrcWork:
        """Combine `given` over all ranks; `output` gets this rank's part of the result."""
        return self.reduce_scatter_single_coalesced([output], [given], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> MrcWork:
        """As :meth:`reduce_scatter_single`, of several."""
        operation = operations.reduce_scatter(outputs, inputs, operator_of(opts), self._world)
        return self._collective("reduce_scatter", operation, outputs, opts)

    def reduce_scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None
    ) -> MrcWork:
        """Combine `inputs[0][r]` over all ranks into `outputs[0]` of rank r."""
        ((output,), (parts,)) = outputs, inputs
        check_count("reduce_scatter", parts, self._world)
        together = torch.cat([part.detach().reshape(-1) for part in parts])
        return self.reduce_scatter_single(output, together, opts)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any = None) -> MrcWork:
        """Copy the tensors of the root to all ranks."""
        return self._collective("broadcast", operations.broadcast(tensors, self._root(opts)), tensors, opts)

    def all_gather_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> MrcWork:
        """Collect every rank's `given` in `output`, in rank order."""
        return self.all_gather_single_coalesced([output], [given], opts)

    def all_gather_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> MrcWork:
        """As :meth:`all_gather_single`, of several."""
        operation = operations.all_gather_single(outputs, inputs, self._world)
        return self._collective("all_gather", operation, outputs, opts)

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> MrcWork:
        """Collect every rank's tensor in the list `outputs[0]`, one for each rank."""
        return self.allgather_coalesced([list(each) for each in zip(*outputs, strict=True)], inputs, opts, outputs)

    def allgather_coalesced(
        self, by_rank: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None, result: Any = None
    ) -> MrcWork:
        """Collect every rank's list of tensors: `by_rank[r]` are those of rank r."""
        operation = operations.all_gather(by_rank, inputs, self._rank, self._world)
        return self._collective("all_gather", operation, by_rank if result is None else result, opts)

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> MrcWork:
        """Collect every rank's tensor in the list `outputs[0]` of the root."""
        (given,), places = inputs, outputs[0] if outputs else []
        operation = operations.gather(places, given, self._root(opts), self._rank, self._world)
        return self._collective("gather", operation, outputs, opts)

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None) -> MrcWork:
        """Send tensor r of the list `inputs[0]` of the root to `outputs[0]` of rank r."""
        (output,), parts = outputs, inputs[0] if inputs else []
        operation = operations.scatter(output, parts, self._root(opts), self._rank, self._world)
        return self._collective("scatter", operation, outputs, opts)

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> MrcWork:
        """Send `inputs[r]` to rank r; `outputs[r]` comes from there."""
        return self._collective("all_to_all", operations.all_to_all(outputs, inputs, self._world), outputs, opts)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        given: torch.Tensor,
        output_splits: Sequence[int] | None = None,
        input_splits: Sequence[int] | None = None,
        opts: Any = None,
    ) -> MrcWork:
        """Send a part of `given`, cut along its first dimension, to each rank; `output` gets theirs in rank order."""
        operation = operations.all_to_all_single(output, given, output_splits, input_splits, self._world)
        return self._collective("all_to_all", operation, [output], opts)

    # Messages

    def send(self, tensors: list[torch.Tensor], to: int, tag: int = 0) -> MrcWork:
        """Send one tensor to rank `to`."""
        (staged,) = stage(tensors)
        return self._message("send", lambda messages: messages.send(staged.raw, to, tag), tensors)

    def recv(self, tensors: list[torch.Tensor], source: int, tag: int = 0) -> MrcWork:
        """Receive one tensor from rank `source`."""
        return self._receive("recv", tensors, source, tag)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> MrcWork:
        """Receive one tensor from whichever rank sends first; the work's source_rank() is which."""
        return self._receive("recv", tensors, None, tag)

    # The group

    def barrier(self, opts: Any = None) -> MrcWork:
        """Ends when every rank has called it."""
        return self._collective("barrier", lambda ranks: ranks.barrier(), [], opts)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """A barrier that has ended when this returns. DistBackendError names who did not come within `timeout`.

        Rank 0 learns it, and with `wait_all_ranks` names all of them. Torch's function of this name asks for gloo.
        """
        limit = self._timeout if timeout is None else timeout
        barrier = MonitoredBarrier(self._barriers, limit.total_seconds(), wait_all_ranks=wait_all_ranks)
        self._barriers += 1
        in_all = (limit + self._timeout).total_seconds()  # others may still have to join
        start = lambda: self._links.message(barrier.run, in_all)  # noqa: E731
        self._post("monitored_barrier", [], start).wait()

    def shutdown(self) -> None:
        """Give everything back; called by destroy_process_group. Again does nothing."""
        self._close(orderly=True)

    def abort(self) -> None:
        """As :meth:`shutdown` without waiting for what is under way, which fails.

        A group with `enable_reconfigure` may be reconfigured again.
        """
        self._hooks.run()
        if self._reconfiguration is None or self._closed:
            self._close(orderly=False)
            return
        self._call(self._close_links(orderly=False, reason="the group was aborted: reconfigure it"))

    # Reconfiguration: mrc_lab/torch/reconfiguration.py

    @property
    def supports_reconfigure(self) -> bool:
        """Whether the group was made with `enable_reconfigure`."""
        return self._reconfiguration is not None

    def get_reconfigure_handle(self) -> str:
        """The handle of this process, the same for its life, which the other members need."""
        return self._reconfigurable().handle

    def reconfigure(self, opts: Any) -> MrcWork:
        """Form a new group of the processes whose handles are in `opts.handles`, in the order of ranks.

        `opts.uuid` is a number not used before, `opts.timeout` how long it may take (None: as operations). If the work
        fails, the old group has ended as well, and another try needs another number. DistBackendError for handles that
        cannot be, and while a reconfiguration is under way.
        """
        reconfiguration = self._reconfigurable()
        try:
            members = reconfiguration.begin(opts.uuid, opts.handles)
        except ValueError as error:
            raise dist.DistBackendError(f"reconfigure failed: {error}") from None
        timeout = self._timeout if opts.timeout is None else opts.timeout

        async def form() -> None:
            links = await reconfiguration.form(self._links, members, timeout.total_seconds())
            links.on_failure = self._hooks.run
            self._links, self._barriers, self._sequence = links, 0, 0

        return self._post("reconfigure", [], form, members.rank)

    supports_abort_hooks = True

    def register_abort_hook(self, hook_id: int, hook: Callable[[], None]) -> None:
        """Have `hook` called, on a thread of its own, when the group fails or is aborted."""
        self._hooks.register(hook_id, hook)

    def unregister_abort_hook(self, hook_id: int) -> None:
        """Undo :meth:`register_abort_hook`."""
        self._hooks.unregister(hook_id)

    def get_error(self) -> Any:
        """Whether the group has failed: torch's ErrorType, SUCCESS if not. Waits for nothing."""
        kind = self._links.failure_kind
        return ErrorType.SUCCESS if kind is None else _ERRORS[kind]

    def errored(self) -> Exception | None:
        """The error of :meth:`get_error` with its reason, None if there is none. Waits for nothing."""
        links = self._links
        if links.failure_kind is None:
            return None
        error: Exception = dist.DistBackendError(f"{self!r} has failed: {links.failure}")
        return error

    @property
    def lost(self) -> tuple[PeerLost, ...]:
        """The ranks that are lost, as far as this one knows, with host, reason and time since their last answer."""
        return self._links.lost

    def set_timeout(self, timeout: timedelta) -> None:
        """How long operations posted from now on may take that have no timeout of their own."""
        self._timeout = timeout

    _set_default_timeout = set_timeout

    # Names that torch had before 2.13, which it and others still call.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    @property
    def _rank(self) -> int:
        return self._links.rank

    @property
    def _world(self) -> int:
        return self._links.world

    def rank(self) -> int:
        """Number of this rank in the group."""
        return self._rank

    def size(self) -> int:
        """Number of ranks."""
        return self._world

    getRank, getSize = rank, size  # noqa: N815 (for C++)

    def name(self) -> str:
        """The backend's name."""
        return "mrc"

    getBackendName = name  # noqa: N815 (torch's name)

    def _get_backend_name(self) -> str:
        return "mrc"

    def _get_backend(self, device: torch.device) -> MrcProcessGroup:
        return self

    # What torch asks a backend.
    supports_splitting = supports_coalescing = supports_time_estimate = False

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        """Whether it has memory of its own for tensors."""
        return False

    def _set_sequence_number_for_group(self) -> None:
        """Collectives are counted from 0 in every rank: there is nothing to agree on."""

    def _get_sequence_number_for_group(self) -> int:
        """How many collectives have been posted."""
        return self._sequence

    @property
    def group_name(self) -> str:
        """What torch calls the group."""
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def getGroupName(self) -> str:  # noqa: N802 (torch's name)
        """As `group_name`, for C++."""
        return self._name

    @property
    def group_desc(self) -> str:
        """What the user has called the group."""
        return self._description

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    def getGroupDesc(self) -> str:  # noqa: N802 (torch's name)
        """As `group_desc`, for C++."""
        return self._description

    def __repr__(self) -> str:
        return f"MrcProcessGroup(rank {self._rank} of {self._world}, group {self._name!r})"

    # Means

    def _root(self, opts: Any) -> int:
        root: int = opts.rootRank
        if not 0 <= root < self._world:
            raise ValueError(f"there is no rank {root} in a group of {self._world} to be the root")
        return root

    def _receive(self, what: str, tensors: list[torch.Tensor], source: int | None, tag: int) -> MrcWork:
        (staged,) = stage(tensors)

        async def operation(messages: Any) -> int:
            sender: int = await messages.receive(staged.raw, source, tag)
            staged.give_back()
            return sender

        return self._message(what, operation, tensors)

    def _collective(self, what: str, operation: Collective, result: Any, opts: Any) -> MrcWork:
        timeout = own_timeout(opts) or self._timeout
        self._sequence += 1
        return self._post(what, result, lambda: self._links.collective(operation, timeout.total_seconds()))

    def _message(self, what: str, operation: Message, result: Any) -> MrcWork:
        return self._post(what, result, lambda: self._links.message(operation, self._timeout.total_seconds()))

    def _post(
        self, what: str, result: Any, start: Callable[[], Coroutine[Any, Any, Any]], rank: int | None = None
    ) -> MrcWork:
        """`rank` is this one's, if it differs from that in the group there is."""
        where = f"{what} of rank {self._rank if rank is None else rank} in group {self._name!r}"
        work = MrcWork(where, result, self._callbacks)

        async def run() -> None:
            try:
                outcome = await start()
            except GroupFailedError as error:
                work.finish(dist.DistBackendError(f"{where} failed: {error}"))
            except BaseException as error:  # a mistake of ours, or the end of the loop: nobody waits for ever
                work.finish(dist.DistBackendError(f"{where} was given up: {type(error).__name__} {error}"))
                raise
            else:
                work.finish(None, outcome)

        if self._closed:
            raise dist.DistBackendError(f"{where} failed: the group is destroyed")
        try:
            self._thread.post(run)
        except RuntimeError as error:
            raise dist.DistBackendError(f"{where} failed: {error}") from None
        return work

    def _close(self, *, orderly: bool) -> None:
        if self._closed:
            return
        self._closed = True
        if self._call(self._close_links(orderly=orderly, reason="the group is destroyed")):
            self._release()

    async def _close_links(self, *, orderly: bool, reason: str) -> None:
        if self._reconfiguration is not None:
            await self._reconfiguration.abort()
        await self._links.close(orderly=orderly, reason=reason)

    def _call(self, closing: Coroutine[Any, Any, None]) -> bool:
        """Close links; False in a process that was forked, or whose loop is over: there is nothing to give back."""
        try:
            self._thread.call(closing)
        except RuntimeError:
            closing.close()
            return False
        return True

    def _reconfigurable(self) -> Reconfiguration:
        if self._reconfiguration is None:
            raise dist.DistBackendError("this group does not reconfigure: make it with enable_reconfigure=True")
        return self._reconfiguration
