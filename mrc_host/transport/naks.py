"""What a NAK means to the application: the status of the request that failed, and a sentence."""

from __future__ import annotations

from typing import Final

from mrc_host.verbs_types import CompletionStatus
from mrc_host.wire import headers

_KNOWN: Final = {
    headers.NAK_REMOTE_ACCESS: (
        CompletionStatus.REMOTE_ACCESS_ERROR,
        "The peer refused the remote range: wrong rkey, outside the region, or no REMOTE_WRITE.",
    ),
    headers.NAK_INVALID_REQUEST: (
        CompletionStatus.REMOTE_INVALID_REQUEST_ERROR,
        "The peer refused the write: its queue pair takes none (remote_write), or the request was malformed.",
    ),
    headers.NAK_REMOTE_OPERATION: (
        CompletionStatus.REMOTE_OPERATION_ERROR,
        "The peer could not carry out the request: too many WRITE_WITH_IMM in flight.",
    ),
}


def refusal(syndrome: int) -> str:
    """What the NIC that sends such a NAK tells its own application."""
    return _KNOWN[syndrome][1].replace("The peer refused", "This NIC refused the peer")


def failure(syndrome: int) -> tuple[CompletionStatus, str]:
    """Status and reason for the syndrome of a NAK that ends a connection."""
    return _KNOWN.get(syndrome) or (CompletionStatus.REMOTE_OPERATION_ERROR, f"The peer sent NAK {syndrome:#x}.")
