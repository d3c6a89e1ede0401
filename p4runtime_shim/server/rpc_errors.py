"""Errors as P4Runtime reports them: a canonical code and a message; for batches, one per element.

A batch (Write, Read) with failed elements ends with status UNKNOWN. The trailing metadata `grpc-status-details-bin` has
one `p4.v1.Error` per element, in order, in a `google.rpc.Status` (P4Runtime spec, "Error Reporting Messages").
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from finsy.proto import p4r, rpc_code, rpc_status

from p4runtime_shim import errors as switch_errors

DETAILS_KEY = "grpc-status-details-bin"

# Clients limit metadata (finsy: 64 KiB), and binary values are sent in base64.
MAX_DETAILS_BYTES = 44 * 1024
_SHORT_MESSAGE = 60

_CODES: dict[type[switch_errors.SwitchError], int] = {
    switch_errors.NotFound: rpc_code.NOT_FOUND,
    switch_errors.AlreadyExists: rpc_code.ALREADY_EXISTS,
    switch_errors.InvalidArgument: rpc_code.INVALID_ARGUMENT,
    switch_errors.ResourceExhausted: rpc_code.RESOURCE_EXHAUSTED,
    switch_errors.PermissionDenied: rpc_code.PERMISSION_DENIED,
    switch_errors.InvalidProgram: rpc_code.INVALID_ARGUMENT,
    switch_errors.Unsupported: rpc_code.INVALID_ARGUMENT,
    switch_errors.BuildError: rpc_code.INTERNAL,
}


class RpcError(Exception):
    """An error for the client; `code` is a google.rpc.Code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def code_name(code: int) -> str:
    """The name of a google.rpc.Code, like NOT_FOUND."""
    return next((name for name, value in rpc_code.Code.items() if value == code), f"code {code}")


# Each makes an error of one code from a message.
invalid = partial(RpcError, rpc_code.INVALID_ARGUMENT)
not_found = partial(RpcError, rpc_code.NOT_FOUND)
out_of_range = partial(RpcError, rpc_code.OUT_OF_RANGE)
denied = partial(RpcError, rpc_code.PERMISSION_DENIED)
precondition = partial(RpcError, rpc_code.FAILED_PRECONDITION)
exists = partial(RpcError, rpc_code.ALREADY_EXISTS)
exhausted = partial(RpcError, rpc_code.RESOURCE_EXHAUSTED)
unimplemented = partial(RpcError, rpc_code.UNIMPLEMENTED)


def from_switch(error: switch_errors.SwitchError) -> RpcError:
    """The same error with its canonical code."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return RpcError(_CODES[kind], str(error))
    return RpcError(rpc_code.INTERNAL, str(error))


class BatchError(Exception):
    """Some elements of a batch failed; `results` has one item per element, None for success."""

    def __init__(self, results: Sequence[RpcError | None], what: str) -> None:
        failed = [(index, error) for index, error in enumerate(results) if error is not None]
        index, first = failed[0]
        name = code_name(first.code)
        message = f"{len(failed)} of {len(results)} {what} failed; the first, number {index}: {name}: {first.message}"
        super().__init__(message)
        self.results = tuple(results)
        self.message = message

    def details(self) -> bytes | None:
        """A serialized google.rpc.Status, with messages shortened if necessary; None if it is still too large."""
        for limit in (None, _SHORT_MESSAGE, 0):
            data = self._status(limit).SerializeToString()
            if len(data) <= MAX_DETAILS_BYTES:
                return data
        return None

    def _status(self, limit: int | None) -> rpc_status.Status:
        status = rpc_status.Status(code=rpc_code.UNKNOWN, message=self.message[:500])
        for error in self.results:
            detail = p4r.Error(canonical_code=rpc_code.OK)
            if error is not None:
                detail = p4r.Error(canonical_code=error.code, message=error.message[:limit])
            status.details.add().Pack(detail)
        return status
