"""torchft's process group over MRC: each quorum of replica groups has a group of its own.

``ProcessGroupMrc()`` takes the place of torchft's ProcessGroupGloo or ProcessGroupNCCL, for a Manager or alone. To
configure it aborts the group before, if there is one, makes another in the store that it is given, and waits until all
members are connected. A group has queue pairs and memory of its own, so no packet of an old one reaches a new one.

The last call wins: `configure` and `abort` end a `configure` that is under way in another thread, which raises.
docs/training-faults.md is the user's page.
"""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError  # before Python 3.11 another one than TimeoutError
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from mrc_lab.torch.create import new_group
from mrc_lab.torch.options import GroupOptions
from mrc_lab.torch.process_group import MrcProcessGroup

try:
    from torchft import ddp
    from torchft.process_group import ProcessGroupWrapper, create_store_client
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{__name__} needs torchft, and {error.name} is not installed: docs/training-faults.md says how to install it."
    ) from error

LONGEST_CONFIGURE = timedelta(seconds=60)  # torchft's own default: whom nobody has met yet, nobody can know to be dead
_OVERTAKEN = "this configure was ended by another thread, which called configure, abort or shutdown"


class ProcessGroupMrc(ProcessGroupWrapper):  # type: ignore[misc]
    """`timeout` is how long an operation may take, and `configure`, the latter at most LONGEST_CONFIGURE.

    `options` are those of the backend mrc, the same on all ranks; without them the environment's apply.
    """

    def __init__(self, timeout: timedelta = timedelta(seconds=60), options: GroupOptions | None = None) -> None:
        """ValueError for a timeout that is none."""
        super().__init__(_checked(timeout))
        self._pg: MrcProcessGroup | None = None
        self._options = options
        self._lock = threading.Lock()
        self._calls = 0  # of configure, abort and shutdown
        self._error: Exception | None = None  # why there is no group
        self._connecting: Future[Any] | None = None  # to the store

    def configure(
        self,
        store_addr: str,
        replica_id: str,
        rank: int,
        world_size: int,
        quorum_id: int | None = None,
        group_rank: int | None = None,
        group_world_size: int | None = None,
        global_ranks: list[int] | None = None,
    ) -> None:
        """Form the group of rank `rank` of `world_size` in the store at ``HOST:PORT/PREFIX``, a prefix not used before.

        Blocks until all ranks are connected. DistBackendError, or the store's own error, if they are not in time, or if
        another thread calls meanwhile; then there is no group, and the old one has ended, too.
        """
        call = self._end(orderly=False)
        limit = min(self._timeout, LONGEST_CONFIGURE)
        try:
            group = self._create_pg(self._connect(call, store_addr, limit), rank, world_size)
            with self._lock:
                overtaken = self._calls != call
                if not overtaken:
                    self._pg = group
            if overtaken:
                group.abort()
                raise dist.DistBackendError(_OVERTAKEN)
            options = dist.BarrierOptions()
            options.timeout = limit
            group.barrier(options).wait()
        except Exception as error:
            self._give_up(call, error)
            raise

    def abort(self, errored: bool = True) -> None:
        """End the group: what is under way fails, and `errored` says so until the next `configure`."""
        self._end(orderly=False, error=dist.DistBackendError("the process group was aborted") if errored else None)

    def shutdown(self) -> None:
        """End the group once all that was sent is acknowledged; another `configure` makes one again."""
        self._end(orderly=True)

    def errored(self) -> Exception | None:
        """Why the group has failed, such as the loss of a replica, or why there is none; waits for nothing."""
        with self._lock:
            group, error = self._pg, self._error
        return error if group is None else group.errored()

    def set_timeout(self, timeout: timedelta) -> None:
        """How long operations posted from now on may take, and `configure`. ValueError for none."""
        self._timeout = _checked(timeout)
        group = self._pg
        if group is not None:
            group.set_timeout(timeout)

    def getBackendName(self) -> str:  # noqa: N802 (torchft's name)
        """As torchft names its own."""
        return "torchft-mrc"

    def _create_pg(self, store: Any, rank: int, world_size: int) -> MrcProcessGroup:
        return new_group(store, rank, world_size, timeout=self._timeout, name="torchft", options=self._options)

    def _connect(self, call: int, store_addr: str, limit: timedelta) -> Any:
        """A client of the store; made on a thread of its own, since torch waits for a stopped store without bound."""
        found: Future[Any] = Future()

        def connect() -> None:
            try:
                store = create_store_client(store_addr, timeout=limit)
            except Exception as error:
                with contextlib.suppress(InvalidStateError):
                    found.set_exception(error)
            else:
                with contextlib.suppress(InvalidStateError):
                    found.set_result(store)

        with self._lock:
            if self._calls != call:
                raise dist.DistBackendError(_OVERTAKEN)
            self._connecting = found
        threading.Thread(target=connect, name="mrc store", daemon=True).start()
        try:
            return found.result(limit.total_seconds())
        except FutureTimeoutError:
            raise dist.DistBackendError(f"the store at {store_addr} did not answer within {limit}") from None
        except CancelledError:
            raise dist.DistBackendError(_OVERTAKEN) from None

    def _end(self, *, orderly: bool, error: Exception | None = None) -> int:
        """End the group there is; returns the number of this call."""
        with self._lock:
            group, self._pg, self._error = self._pg, None, error
            self._calls += 1
            call = self._calls
            if self._connecting is not None:
                self._connecting.cancel()
                self._connecting = None
        if group is not None:
            (group.shutdown if orderly else group.abort)()
        return call

    def _give_up(self, call: int, error: Exception) -> None:
        """A configuration has failed: there is no group, unless a later call has made one."""
        with self._lock:
            if self._calls != call:
                return
            group, self._pg, self._error = self._pg, None, error
        if group is not None:
            group.abort()


class DistributedDataParallel(ddp.DistributedDataParallel):  # type: ignore[misc]
    """torchft's, without its defect on CPUs: a failed all-reduce, gloo's too, ends the program there.

    Its hook hands on a future that is never made if waiting has raised (torchft 0.2, ``assert fut._fut``).
    """

    @staticmethod
    def _comm_hook(state, bucket):  # type: ignore[no-untyped-def]  # torch refuses texts as types
        gradients = bucket.buffer()
        state.allreduce(gradients).wait()  # a failure is reported to the manager, which lets no step count then
        done = torch.futures.Future()
        done.set_result(gradients)
        return done


def _checked(timeout: Any) -> timedelta:
    if not isinstance(timeout, timedelta) or timeout < timedelta(0):
        raise ValueError(f"the timeout of a ProcessGroupMrc is a timedelta from 0 on: {timeout!r}")
    return timeout
