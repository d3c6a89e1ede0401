"""Devices in the world: a switch or a NIC, and its ports.

A device is pulled: whenever one of its channels is free it is asked for that port's next frame. A port that answered
"nothing" is idle until the device gets some input. All that is done by its ports, in C (:mod:`simulation.core`); here
is what is rare: a NIC that is replaced, carrier, and observers, for whom verbs of the device are called in Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from mrc_host.nic import Nic
from p4runtime_shim.switch import EmbeddedSwitch
from simulation.core.native import Channel, Clock, NicPorts, SwitchPorts
from simulation.hardware_timing import IDEAL, HardwareTiming

_COPYING = frozenset(("clone_egress_pkt_to_egress", "recirculate"))

Around = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes of a verb another that observes it."""


class Node(Protocol):
    """What the world knows of every device."""

    @property
    def name(self) -> str:
        """The device's name."""

    @property
    def ports(self) -> SwitchPorts | NicPorts:
        """What channels are joined to."""

    def port_changed(self, port: int, up: bool) -> None:
        """The carrier of a port came or went."""


class SwitchNode:
    """A switch, and its ports with the channels that leave them."""

    __slots__ = ("_clock", "_receive", "_transmit", "name", "ports", "switch")

    def __init__(
        self,
        clock: Clock,
        name: str,
        switch: EmbeddedSwitch,
        channels: Mapping[int, Channel],
        pauses: bool = False,
    ) -> None:
        self.name = name
        self.switch = switch
        self._clock = clock
        self._receive: Callable[[int, bytes, int], None] = switch.receive
        self._transmit: Callable[[int, int], bytes | None] = switch.transmit
        copies = pauses or _copies_in_egress(switch)  # sending from one port may make others ready
        longest = switch.queues.max_frame
        self.ports = SwitchPorts(clock, dict(channels), _addresses(switch), longest, copies, pauses)
        switch.before_close(self.ports.close)

    def wrap(self, receive: Around, transmit: Around) -> None:
        """From now on use what these make of the switch's own verbs, so that they observe it."""
        self._receive, self._transmit = receive(self._receive), transmit(self._transmit)
        self.ports.observe(self._receive, self._transmit)

    def port_changed(self, port: int, up: bool) -> None:
        """Carrier. What was queued on a port that lost it is dropped by the switch."""
        self.switch.port_changed(port, up, self._clock.now)
        self.ports.serve()


def _addresses(switch: EmbeddedSwitch) -> tuple[int, ...]:
    """The switch and its functions in C, as SwitchPorts takes them."""
    hot, library = switch.native.hot, switch.native.library
    functions = (
        hot.sw_dev_receive_frame,
        hot.sw_dev_transmit_frame,
        library.sw_dev_take_ready,
        hot.sw_dev_set_owners,
        hot.sw_prefetch,
        hot.sw_dev_next_wakeup,
        hot.sw_dev_tick,
    )
    return switch.handle, *(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)


def _copies_in_egress(switch: EmbeddedSwitch) -> bool:
    """Whether sending from one port may put frames into the queues of others."""
    pipeline = switch.pipeline
    return pipeline is not None and any(
        primitive.op in _COPYING for action in pipeline.program.actions for primitive in action.primitives
    )


class _Verbs(NamedTuple):
    """A NIC's verbs, as its ports call them."""

    receive: Callable[[int, bytes, int], None]
    transmit: Callable[[int, int], bytes | None]
    wakeup: Callable[[], int | None]
    tick: Callable[[int], None]


def _as_it_is(verb: Callable[..., Any]) -> Callable[..., Any]:
    return verb


class NicNode:
    """A NIC, and its ports with the channels that leave them."""

    __slots__ = ("_clock", "_verbs", "_watchers", "name", "nic", "ports")

    def __init__(
        self,
        clock: Clock,
        name: str,
        nic: Nic,
        channels: Sequence[Channel],
        timing: HardwareTiming = IDEAL,
    ) -> None:
        self.name = name
        self._clock = clock
        self._watchers: list[Callable[[bytes], None]] = []
        in_order = sorted(channels, key=lambda channel: channel.port)
        self.ports = NicPorts(clock, in_order, timing.packet, timing.pcie_rate)
        self._drive(nic)

    @property
    def announce(self) -> Callable[[], object] | None:
        """Called when the NIC may have completions or events."""
        return self.ports.announce

    @announce.setter
    def announce(self, announce: Callable[[], object] | None) -> None:
        self.ports.announce = announce

    def replace(self, nic: Nic) -> None:
        """Make this the device. Who watches frames of the old device watches those of the new one."""
        self.nic.datapath.outbox.keep_payloads()  # its packets go on, but its memory is the application's again
        self._drive(nic)

    def _drive(self, nic: Nic) -> None:
        self.nic = nic
        self._verbs = _Verbs(nic.receive, nic.transmit, nic.wakeup, nic.tick)
        self.ports.drive(*self._verbs)
        if type(nic) is not Nic:  # a derived class may send and announce in other ways
            return
        own = nic.datapath
        self.ports.shorten(nic.transmit_first, nic.has_news, own.receiver, own.carry_frame, nic.answer_due, own.outbox)

    def wrap(
        self,
        receive: Around = _as_it_is,
        transmit: Around = _as_it_is,
        wakeup: Around = _as_it_is,
        tick: Around = _as_it_is,
    ) -> None:
        """Until the device is replaced, use what these make of the NIC's own verbs, so that they observe it.

        From now on they are called for each frame, and what ports otherwise spare the NIC is not spared.
        """
        own = self._verbs
        self._verbs = _Verbs(receive(own.receive), transmit(own.transmit), wakeup(own.wakeup), tick(own.tick))
        self.ports.observe(*self._verbs)

    def watch(self, left: Callable[[bytes], None]) -> None:
        """Tell `left` from now on of every frame that leaves."""
        self._watchers.append(left)
        self.ports.left = self._left

    def _left(self, frame: bytes) -> None:
        for left in self._watchers:
            left(frame)

    def filter(self, takes: Callable[[bytes], bool]) -> None:
        """Until the device is replaced, it gets only those frames that `takes` is true for."""

        def around(receive: Callable[[int, bytes, int], None]) -> Callable[[int, bytes, int], None]:
            def filtered(port: int, frame: bytes, now: int) -> None:
                if takes(frame):
                    receive(port, frame, now)

            return filtered

        self.wrap(receive=around)

    def poke(self) -> None:
        """The NIC had some input: ask idle ports, run what is due, announce what it may have."""
        self.ports.poke()
        if self.announce is not None:
            self.announce()

    def port_changed(self, port: int, up: bool) -> None:
        """Carrier."""
        self.nic.port_changed(port, up, self._clock.now)
        self.poke()
