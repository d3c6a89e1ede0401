"""Options of simple_switch_grpc that this switch does not need, so that scripts written for BMv2 can start it too.

An option that can safely be ignored is accepted, with a note on standard error why it has no effect. An option
whose effect would be missed is rejected, with the reason and an alternative.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from p4runtime_shim.config import ConfigError

DROP_PORT = 511

_NO_THRIFT = "there is no Thrift server; use P4Runtime and the management service instead"
_NO_NANOMSG = "nothing is sent over nanomsg; use --log-file, --trace and P4Runtime's digests"
_NO_LIMIT = "all 16-bit numbers are supported"
_NO_FILES = "packets come from interfaces; p4runtime_shim.switch takes them from Python"

ACCEPTED = {
    "--thrift-port": _NO_THRIFT,
    "--nanolog": _NO_NANOMSG,
    "--notifications-addr": _NO_NANOMSG,
    "--max-port-count": "every port from 0 to 510 can have an interface",
    "--max-mc-groups": _NO_LIMIT,
    "--max-l1-entries": _NO_LIMIT,
    "--max-l2-entries": _NO_LIMIT,
    "--dump-packet-data": "use --trace to follow packets and --pcap for their bytes",
}
"""Options with a value, and why they have no effect."""

ACCEPTED_FLAGS = {
    "--log-flush": "every log record is written immediately",
    "--disable-swap": "programs are replaced only at a controller's request",
}
"""The same for options without a value."""

REJECTED = {
    "--use-files": _NO_FILES,
    "--packet-in": _NO_FILES,
    "--dp-grpc-server-addr": _NO_FILES,
    "--restore-state": "state is not kept across restarts; let the controller write it again",
    "--load-modules": "programs can use only v1model's externs",
}
"""Rejected options with a value, and why."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add them. `options.without_effect` lists those accepted; a rejected one raises ConfigError while parsing."""
    group = parser.add_argument_group("options of simple_switch_grpc without effect here")
    for name, why in ACCEPTED.items():
        group.add_argument(
            name, action=_Explained, why=why, metavar="VALUE", help=why, dest="without_effect", default=[]
        )
    for name, why in ACCEPTED_FLAGS.items():
        group.add_argument(name, action=_Explained, why=why, nargs=0, help=why, dest="without_effect", default=[])
    group.add_argument("--drop-port", action=_DropPort, type=int, metavar="PORT", help=f"must be {DROP_PORT}")
    for name, why in REJECTED.items():
        parser.add_argument(name, action=_Explained, why=why, rejected=True, help=argparse.SUPPRESS)


class _Explained(argparse.Action):
    """An option without effect, or a rejected one; with the reason to print."""

    def __init__(self, *args: Any, why: str, rejected: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.why = why
        self.rejected = rejected

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        message = f"{option_string}: {self.why}"
        if self.rejected:
            raise ConfigError(message)
        namespace.without_effect = [*namespace.without_effect, message]


class _DropPort(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: int | str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if values != DROP_PORT:
            raise ConfigError(f"{option_string} is {values}; v1model's drop port is {DROP_PORT}")
