"""The interface applications use, in the terms of RDMA verbs.

>>> with verbs.open("/run/mrc/demo/h1.sock") as ctx:
...     pd, cq = ctx.alloc_pd(), ctx.create_cq(256)
...     mr = pd.alloc_mr(65536)
...     qp = pd.create_qp(cq)
...     print(qp.endpoint(mr))  # pass this to the peer, by any means
...     qp.connect(peer := Endpoint.parse(input()))
...     mr.buffer[:5] = b"hello"
...     qp.write(mr, peer.memory, length=5)
...     check(cq.wait(timeout_s=10))

MRC carries WRITE and WRITE_WITH_IMM only (docs/protocol.md §2). Errors are :class:`mrc_host.errors.MrcError`.
"""

from __future__ import annotations

from os import PathLike

from mrc_host.errors import MrcError
from mrc_host.verbs.completion_queue import CompletionQueue, check
from mrc_host.verbs.context import Context, ProtectionDomain
from mrc_host.verbs.controller import Controller
from mrc_host.verbs.errors import (
    AgentLostError,
    ClosedError,
    CompletionError,
    ProtocolError,
    RejectedError,
    WaitTimeoutError,
)
from mrc_host.verbs.local import LocalProvider
from mrc_host.verbs.memory import MemoryRegion, RemoteMemory
from mrc_host.verbs.provider import Provider
from mrc_host.verbs.queue_pair import Endpoint, QueuePair
from mrc_host.verbs_types import (
    Access,
    CcProfile,
    Completion,
    CompletionOpcode,
    CompletionStatus,
    DcqcnProfile,
    DeviceLimits,
    EvField,
    EvMode,
    EvProfile,
    NsccProfile,
    PathInfo,
    PathState,
    PortState,
    ProbeEvent,
    QpAddress,
    QpAttributes,
    QpCounters,
    QpInfo,
    QpState,
    QpType,
    Sge,
    WorkRequest,
    WrOpcode,
)


def open(path: str | PathLike[str]) -> Context:  # noqa: A001 - the verb's own name
    """Open the NIC whose agent listens at the UNIX socket `path`. Raises AgentLostError when none does."""
    from mrc_host.verbs.remote.client import AgentProvider  # not at the top: a NIC of this process needs none of it

    return Context(AgentProvider(path), owns_provider=True)


def open_controller(path: str | PathLike[str], *, timeout_s: float | None = None) -> Controller:
    """A controller of the NIC whose agent listens at `path`, the applications' socket or the controller's own.

    Raises AgentLostError when none does, or when this user may not connect (docs/privileges.md); so does every command
    that the agent has not answered after `timeout_s` (default 30).
    """
    from mrc_host.verbs.remote.client import AgentProvider
    from mrc_host.verbs.remote.connection import ANSWER_TIMEOUT_S, for_controller

    provider = AgentProvider(for_controller(path), timeout_s=timeout_s or ANSWER_TIMEOUT_S)
    return Controller(provider, owns_provider=True)


__all__ = [
    "Access",
    "AgentLostError",
    "CcProfile",
    "ClosedError",
    "Completion",
    "CompletionError",
    "CompletionOpcode",
    "CompletionQueue",
    "CompletionStatus",
    "Context",
    "Controller",
    "DcqcnProfile",
    "DeviceLimits",
    "Endpoint",
    "EvField",
    "EvMode",
    "EvProfile",
    "LocalProvider",
    "MemoryRegion",
    "MrcError",
    "NsccProfile",
    "PathInfo",
    "PathState",
    "PortState",
    "ProbeEvent",
    "ProtectionDomain",
    "ProtocolError",
    "Provider",
    "QpAddress",
    "QpAttributes",
    "QpCounters",
    "QpInfo",
    "QpState",
    "QpType",
    "QueuePair",
    "RejectedError",
    "RemoteMemory",
    "Sge",
    "WaitTimeoutError",
    "WorkRequest",
    "WrOpcode",
    "check",
    "open",
    "open_controller",
]
