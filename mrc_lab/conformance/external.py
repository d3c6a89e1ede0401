"""Let a program of the tester's be the application beside the NIC: JSON, a line each way, on its standard streams.

The kit writes a request and reads one answer. A request names what to ``do`` and the arguments of the method of
`nic_under_test.NicUnderTest`; an answer has its result, or ``error``::

    {"do": "connect", "peer": {"address": "fd00::2", "qpn": 17, "psn": 4711}, "attributes": {"path_mtu": 1024}}
    {"qpn": 5, "psn": 815, "address": 140000000, "rkey": 7}
    {"do": "write", "wr_id": 1, "size": 3000, "address": 65536, "rkey": 119, "imm": null}
    {}
    {"do": "finished"}
    {"completions": [{"received": false, "wr_id": 1, "status": "success", "imm": 0}]}
    {"do": "memory", "offset": 0, "size": 4}
    {"hex": "55555555"}
    {"do": "disconnect"}
    {}
"""

from __future__ import annotations

import os
import selectors
import shlex
import subprocess
import time
from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Any

from mrc_common import children, strict_json
from mrc_host.errors import MrcError
from mrc_host.verbs_types import QpAddress
from mrc_lab.conformance.nic_under_test import Connected, Finished
from mrc_lab.errors import ExperimentError

ANSWER_S = 30.0
_LONGEST_LINE = 4 << 20


class ExternalNic:
    """The NIC under test by way of `command`. Use it in a `with` statement, which ends the program.

    See NicUnderTest for the methods. ExperimentError when the program cannot be run, ends, or gives no proper answer.
    """

    def __init__(self, command: str, *, answer_s: float = ANSWER_S) -> None:
        self._command = command
        self._answer_s = answer_s
        self._rest = b""

    def __enter__(self) -> ExternalNic:
        try:
            words = shlex.split(self._command)
            self._process = children.popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except (OSError, ValueError, IndexError) as error:
            raise ExperimentError(f"{self._command!r} cannot be run: {error}") from None
        assert self._process.stdout is not None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        self._process.kill()
        self._process.communicate()

    def connect(self, peer: QpAddress, attributes: Mapping[str, int]) -> Connected:
        """See NicUnderTest."""
        address = str(IPv6Address(peer.address))
        there = {"address": address, "qpn": peer.qpn, "psn": peer.psn}
        found = self._ask("connect", peer=there, attributes=dict(attributes))
        return Connected(*(self._number(found, name) for name in ("qpn", "psn", "address", "rkey")))

    def write(self, wr_id: int, size: int, address: int, rkey: int, imm: int | None) -> None:
        """See NicUnderTest."""
        self._ask("write", wr_id=wr_id, size=size, address=address, rkey=rkey, imm=imm)

    def finished(self) -> list[Finished]:
        """See NicUnderTest."""
        listed = self._ask("finished").get("completions")
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise self._wrong("its completions are no list of objects")
        return [
            Finished(
                one.get("received") is True,
                self._number(one, "wr_id"),
                str(one.get("status")),
                0 if one.get("imm") is None else self._number(one, "imm"),
            )
            for one in listed
        ]

    def memory(self, offset: int, size: int) -> bytes:
        """See NicUnderTest."""
        found = self._ask("memory", offset=offset, size=size).get("hex")
        try:
            data = bytes.fromhex(found) if isinstance(found, str) else b""
        except ValueError:
            data = b""
        if len(data) != size:
            raise self._wrong(f"its memory is not the hexadecimal text of {size} bytes")
        return data

    def disconnect(self) -> None:
        """See NicUnderTest."""
        self._ask("disconnect")

    def _ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        request = strict_json.dumps({"do": what, **arguments}) + "\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request.encode())
            self._process.stdin.flush()
        except OSError:
            raise self._wrong("it has ended") from None
        try:
            answer = strict_json.loads(self._line(what))
        except ValueError:
            raise self._wrong(f"its answer to {what!r} is not JSON") from None
        if not isinstance(answer, dict):
            raise self._wrong(f"its answer to {what!r} is no object")
        if "error" in answer:
            raise MrcError(str(answer["error"])[:1000])
        return answer

    def _line(self, what: str) -> bytes:
        """Read a line of the answer. The pipe is read without its buffer, of which a selector knows nothing."""
        assert self._process.stdout is not None
        until = time.monotonic() + self._answer_s
        while b"\n" not in self._rest:
            if not self._selector.select(max(0.0, until - time.monotonic())):
                raise self._wrong(f"no answer to {what!r} within {self._answer_s:g} s")
            part = os.read(self._process.stdout.fileno(), 1 << 16)
            if not part:
                raise self._wrong("it has ended")
            self._rest += part
            if len(self._rest) > _LONGEST_LINE:
                raise self._wrong(f"its answer to {what!r} is longer than {_LONGEST_LINE} bytes")
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _number(self, found: Mapping[str, Any], name: str) -> int:
        value = found.get(name)
        if type(value) is not int or not 0 <= value < 1 << 64:
            raise self._wrong(f"it gives no number as {name}")
        return value

    def _wrong(self, what: str) -> ExperimentError:
        return ExperimentError(f"the application {self._command!r} does not do its part: {what}")
