"""The states of a queue pair, as in verbs, and which attributes each transition takes (docs/protocol.md §2, §11.1).

RESET -> INIT sets profiles and hints, INIT -> RTR the remote end and what this end accepts, RTR -> RTS how it sends.
From any state it can go to ERROR or back to RESET. What the peer may do can be given in each step, and in INIT and RTS
at any time, as qp_access_flags of verbs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from mrc_host.errors import InvalidArgumentError, StateError
from mrc_host.verbs_types import QpAttributes, QpState

NEXT: Final = {QpState.RESET: QpState.INIT, QpState.INIT: QpState.RTR, QpState.RTR: QpState.RTS}
TAKES: Final[Mapping[QpState, tuple[str, ...]]] = {
    QpState.INIT: (
        "ev_profile", "cc_profile", "num_qps_per_peer", "num_send_peers", "num_remote_recv_peers", "remote_write",
    ),
    QpState.RTR: (
        "path_mtu", "mpr", "max_wimm", "receive_psn", "dynamic_mpr", "trim_nack", "udp_sport", "planes", "remote_write",
    ),
    QpState.RTS: (
        "mpr_dest", "max_wimm_dest", "timeout", "retry_count", "linear_retries", "congestion_window", "active_paths",
        "send_psn", "trim_nack_dest", "remote_write",
    ),
    QpState.RESET: (),
    QpState.ERROR: (),
}  # fmt: skip
CHANGEABLE: Final = "remote_write"  # without a step, in these states
_CHANGEABLE_IN: Final = (QpState.INIT, QpState.RTS)


def changed(
    attributes: QpAttributes, state: QpState, to: QpState, changes: Mapping[str, Any], remote: bool
) -> QpAttributes:
    """`attributes` after the transition from `state` to `to`, or if it stays; StateError, InvalidArgumentError."""
    if to is state and to in _CHANGEABLE_IN:
        if set(changes) != {CHANGEABLE}:
            raise StateError(
                f"A queue pair does not go from {state.name} to {to.name}; only {CHANGEABLE} may change there."
            )
    elif to not in (QpState.RESET, QpState.ERROR) and NEXT.get(state) is not to:
        raise StateError(f"A queue pair does not go from {state.name} to {to.name}.")
    for name in changes:
        if name not in TAKES[to]:
            takes = ", ".join(TAKES[to]) or "no attributes"
            raise InvalidArgumentError(f"The step to {to.name} takes {takes}, not {name}.")
    if remote != (to is QpState.RTR):
        raise InvalidArgumentError("The remote address belongs to the step to RTR, and that one needs it.")
    return dataclasses.replace(attributes, **changes) if changes else attributes
