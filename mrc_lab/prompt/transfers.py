"""The transfers of the prompt's `write`: their queue pairs stay, so that they can be looked at and used again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from mrc_host import verbs
from mrc_host.errors import MrcError
from mrc_lab.errors import ExperimentError
from mrc_lab.workloads.verified_write import Transfer, WriteReport


class Transfers:
    """`socket` gives the path of a host's agent."""

    def __init__(self, socket: Callable[[str], str]) -> None:
        self._socket = socket
        self._nics: dict[str, verbs.Context] = {}
        self._kept: dict[tuple[str, str], Transfer] = {}

    def write(
        self, source: str, destination: str, nbytes: int, progress: Callable[[float], None] = lambda share: None
    ) -> WriteReport:
        """Write and compare; when it fails or is interrupted, what the two hosts have is given back."""
        if source == destination:
            raise ExperimentError("a write goes from one host to another")
        try:
            return self._transfer(source, destination).write(nbytes, progress)
        except BaseException:
            self.forget(source, destination)
            raise

    def close(self) -> None:
        """Give everything back."""
        self.forget(*self._nics)

    def forget(self, *hosts: str) -> None:
        """Close what is open on some NICs, and the transfers that used it."""
        for ends in [ends for ends in self._kept if set(ends) & set(hosts)]:
            with contextlib.suppress(MrcError):  # of an agent that is gone
                self._kept.pop(ends).close()
        for host in hosts:
            if host in self._nics:
                self._nics.pop(host).close()

    def _transfer(self, source: str, destination: str) -> Transfer:
        ends = (source, destination)
        if ends not in self._kept:
            for host in ends:
                if host not in self._nics:
                    self._nics[host] = verbs.open(self._socket(host))
            self._kept[ends] = Transfer(self._nics[source], self._nics[destination])
        return self._kept[ends]
