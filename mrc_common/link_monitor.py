"""Carrier and existence of interfaces, as reported by the kernel's rtnetlink.

A raw NETLINK_ROUTE socket joins the groups of links and of queueing disciplines (after a change of which it asks for
the link, whose own messages say what it has); its owner waits on it in a loop of its own. One full dump at the start
(and after the kernel had to drop messages for us) gives the state, each later message a change. The kernel may hold
back a carrier message for a while (its link watch is rate limited), so who notices first that a frame could not be sent
asks at once with :meth:`LinkMonitor.query`.
"""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mrc_common import rtnetlink
from mrc_common.rtnetlink import LinkMessage

_RTMGRP_LINK = 1
_RTMGRP_TC = 8
_IFF_UP = 0x1
_IFF_LOWER_UP = 0x10000
_RECEIVE_SIZE = 1 << 17
_DUMP_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class LinkState:
    """An interface of this namespace: kernel index (0: it does not exist), usable (admin up and carrier), MTU.

    It is `plain` while nobody captures there (it would be promiscuous) and it has no queueing discipline, and
    `had_carrier` if it has its carrier or had it earlier.
    """

    name: str
    index: int
    up: bool
    mtu: int = 0
    plain: bool = True
    had_carrier: bool = field(default=False, compare=False)


class LinkMonitor:
    """Knows the state of all interfaces of the namespace in which it was made, and reports changes.

    `on_change` is called from :meth:`on_readable` with the new state of an interface of which anything has
    changed; a vanished or renamed one is reported under its old name with index 0. All that exist are reported while it
    is made. Raises TimeoutError when the kernel does not list them.
    """

    def __init__(self, on_change: Callable[[LinkState], None], *, receive_buffer: int = 1 << 20) -> None:
        self._on_change = on_change
        self._links: dict[int, LinkState] = {}
        self._dumping = False
        self._dump_seen: set[int] | None = None  # indices met since the first answer of the dump under way
        self._dump_again = False  # messages were lost during the dump
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE
        )
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.bind((0, _RTMGRP_LINK | _RTMGRP_TC))
        self._first_dump()

    def fileno(self) -> int:
        """Descriptor to wait on."""
        return self._socket.fileno()

    def links(self) -> Mapping[str, LinkState]:
        """State of every interface by name."""
        return {link.name: link for link in self._links.values()}

    def query(self, index: int) -> None:
        """Ask the kernel for the state of one interface now; the answer comes as a change, if it is one."""
        self._request(index, rtnetlink.NLM_F_REQUEST)

    def on_readable(self, _mask: int = 0) -> None:
        """Read and apply what the kernel sent."""
        while True:
            try:
                data = self._socket.recv(_RECEIVE_SIZE)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self._start_dump()  # messages were lost: read everything again
                continue
            for message in rtnetlink.parse(data):
                self._apply(message)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _first_dump(self) -> None:
        self._start_dump()
        while self._dumping:
            if not select.select([self._socket], [], [], _DUMP_TIMEOUT_S)[0]:
                raise TimeoutError("The kernel did not list the network interfaces (rtnetlink dump timed out).")
            self.on_readable()

    def _start_dump(self) -> None:
        if self._dumping:
            self._dump_again = True  # the kernel runs one dump at a time for a socket
            return
        self._dumping, self._dump_seen = True, None
        self._request(0, rtnetlink.NLM_F_REQUEST | rtnetlink.NLM_F_DUMP)

    def _request(self, index: int, flags: int) -> None:
        self._socket.send(rtnetlink.get_link(index, flags))

    def _apply(self, message: LinkMessage) -> None:
        if self._dumping and self._dump_seen is None and message.flags & rtnetlink.NLM_F_MULTI:
            self._dump_seen = set()  # what came before may be older than the dump
        if message.kind == rtnetlink.NLMSG_DONE:
            self._finish_dump()
        elif message.kind in (rtnetlink.RTM_NEWQDISC, rtnetlink.RTM_DELQDISC):
            if message.index in self._links:
                self.query(message.index)
        elif message.family != 0:  # bridge and other families describe ports, not links
            return
        elif message.kind == rtnetlink.RTM_NEWLINK and message.name is not None:
            usable = message.link_flags & (_IFF_UP | _IFF_LOWER_UP) == _IFF_UP | _IFF_LOWER_UP
            if self._dump_seen is not None:
                self._dump_seen.add(message.index)
            state = LinkState(
                message.name, message.index, usable, message.mtu, message.plain, usable or message.had_carrier
            )
            self._set(state)
        elif message.kind == rtnetlink.RTM_DELLINK:
            self._forget(message.index)

    def _set(self, new: LinkState) -> None:
        old = self._links.get(new.index)
        if old == new:
            return
        if old is not None and old.name != new.name:
            self._forget(new.index)
        self._links[new.index] = new
        self._on_change(new)

    def _forget(self, index: int) -> None:
        gone = self._links.pop(index, None)
        if gone is not None:
            self._on_change(LinkState(gone.name, 0, False))

    def _finish_dump(self) -> None:
        seen, self._dump_seen, self._dumping = self._dump_seen or set(), None, False
        for index in set(self._links) - seen:
            self._forget(index)
        if self._dump_again:
            self._dump_again = False
            self._start_dump()
