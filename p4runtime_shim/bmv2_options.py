"""Options of simple_switch_grpc that this switch has no use for, so that scripts written for that one start it too.

Those for something that nobody misses here are taken, and a line on standard error says why they do nothing. Those that
ask for something which would be missed are refused, with the reason and what to do instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from p4runtime_shim.config import ConfigError

DROP_PORT = 511

_NO_THRIFT = "there is no Thrift server; P4Runtime and the switch's own service do what it is for"
_NO_NANOMSG = "nothing is sent over nanomsg; see --log-file, --trace and P4Runtime's digests"
_NO_LIMIT = "there is room for all numbers that 16 bits have"
_NO_FILES = "packets come from interfaces; from Python, p4runtime_shim.switch takes them without"

TAKEN = {
    "--thrift-port": _NO_THRIFT,
    "--nanolog": _NO_NANOMSG,
    "--notifications-addr": _NO_NANOMSG,
    "--max-port-count": "every port number from 0 to 510 may have an interface",
    "--max-mc-groups": _NO_LIMIT,
    "--max-l1-entries": _NO_LIMIT,
    "--max-l2-entries": _NO_LIMIT,
    "--dump-packet-data": "see --trace for what happens to packets and --pcap for their bytes",
}
"""Options with a value, and why they do nothing."""

TAKEN_FLAGS = {
    "--log-flush": "every line of the log is written at once",
    "--disable-swap": "a program is replaced only when a controller says so",
}
"""Options without a value, likewise."""

REFUSED = {
    "--use-files": _NO_FILES,
    "--packet-in": _NO_FILES,
    "--dp-grpc-server-addr": _NO_FILES,
    "--restore-state": "state is not kept over a restart; let the controller write it anew",
    "--load-modules": "a program may use v1model's externs only",
}
"""Options with a value, and why not."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds them; what is taken is in `options.without_effect`, a refusal is a ConfigError while parsing."""
    group = parser.add_argument_group("options of simple_switch_grpc without effect here")
    for name, why in TAKEN.items():
        group.add_argument(name, action=_Taken, why=why, metavar="VALUE", help=why, dest="without_effect", default=[])
    for name, why in TAKEN_FLAGS.items():
        group.add_argument(name, action=_Taken, why=why, nargs=0, help=why, dest="without_effect", default=[])
    group.add_argument("--drop-port", action=_DropPort, type=int, metavar="PORT", help=f"must be {DROP_PORT}")
    for name, why in REFUSED.items():
        parser.add_argument(name, action=_Refused, why=why, help=argparse.SUPPRESS)


class _Explained(argparse.Action):
    """An option with a reason."""

    def __init__(self, *args: Any, why: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.why = why

    def sentence(self, option: str | None) -> str:
        return f"{option}: {self.why}"


class _Taken(_Explained):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        namespace.without_effect = [*namespace.without_effect, self.sentence(option_string)]


class _Refused(_Explained):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        raise ConfigError(self.sentence(option_string))


class _DropPort(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: int | str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if values != DROP_PORT:
            raise ConfigError(f"{option_string} is {values}; the port that drops is {DROP_PORT}, as v1model says")
