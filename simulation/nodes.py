"""Devices in the world: who is asked for frames when, and who is woken.

A device is pulled: whenever one of its channels is free it is asked for that port's next frame. A port that answered
"nothing" is idle until the device gets some input, so nobody is polled for nothing: a switch says itself which ports
became ready (`EmbeddedSwitch.ready`), a NIC's idle ports are asked again after every input, and its earliest deadline
(`Nic.wakeup`) is one event in the queue, as is a switch's where it has priority flow control.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from mrc_host.nic import Nic
from p4runtime_shim.switch import EmbeddedSwitch
from simulation.channel import Channel
from simulation.clock import Clock
from simulation.hardware_timing import HardwareTiming
from simulation.packet_engine import PacketEngine

_NEVER = 1 << 62
_COPYING = frozenset(("clone_egress_pkt_to_egress", "recirculate"))


class Node(Protocol):
    """What the world knows of every device."""

    name: str

    def receive(self, port: int, frame: bytes) -> None:
        """A frame arrived."""

    def pull(self, channel: Channel, _: object) -> None:
        """`channel` is free; event handler."""

    def port_changed(self, port: int, up: bool) -> None:
        """The carrier of a port came or went."""


class SwitchNode:
    """A switch and the channels that leave its ports."""

    __slots__ = (
        "_channels",
        "_clock",
        "_copies",
        "_hop",
        "_pauses",
        "_ready",
        "_receive",
        "_transmit",
        "_wake_at",
        "name",
        "switch",
    )

    def __init__(
        self, clock: Clock, name: str, switch: EmbeddedSwitch, channels: Mapping[int, Channel], pauses: bool = False
    ) -> None:
        self.name = name
        self.switch = switch
        self._clock = clock
        self._channels = channels
        self._receive: Callable[[int, bytes, int], None] = switch.receive
        self._transmit: Callable[[int, int], bytes | None] = switch.transmit
        self._ready = switch.ready
        self._pauses = pauses
        self._wake_at = _NEVER  # of the earliest wake-up in the event queue
        self._copies = pauses or _copies_in_egress(switch)  # sending from one port may make others ready
        self._hop: Any = None  # what does the work of receive and pull in C (native_core)

    def hop(self, make: Callable[..., Any]) -> Any:
        """The native hop through this switch; `make` is NativeCore.hop."""
        if self._hop is None:
            works = self._copies, self._pauses, self._wake, self._go_on
            self._hop = make(self._clock, self.switch, self._channels, *works)
            self.switch.before_close(self.leave_native)
        return self._hop

    def leave_native(self) -> None:
        """From now on channels call `receive` and `pull` here."""
        hop, self._hop = self._hop, None
        if hop is not None:
            hop.close()
            self._wake_at = hop.wake_at

    def wrap(
        self,
        receive: Callable[[Callable[[int, bytes, int], None]], Callable[[int, bytes, int], None]],
        transmit: Callable[[Callable[[int, int], bytes | None]], Callable[[int, int], bytes | None]],
    ) -> None:
        """From now on use what these make of the switch's own verbs, so that they observe it."""
        self.leave_native()
        self._receive = receive(self._receive)
        self._transmit = transmit(self._transmit)

    def receive(self, port: int, frame: bytes) -> None:
        """A frame arrived: it, or what the program makes of it, is queued; idle channels start at once."""
        self._receive(port, frame, self._clock.now)
        self._serve()

    def _serve(self) -> None:
        """Start what can start on the ports that have become ready."""
        if self._hop is None or not self._hop.serve():
            self._go_on([])

    def _go_on(self, ready: list[int]) -> None:
        """Start what can start on the ports `ready`, if there are any, and on those that become ready then."""
        ready = ready or self._ready()
        while ready:
            now = self._clock.now
            for port in ready:
                channel = self._channels.get(port)
                if channel is not None and channel.idle:
                    frame = self._transmit(port, now)
                    if frame is not None:
                        channel.send(frame, now)
            if not self._copies:
                return
            ready = self._ready()
        if self._pauses:
            self._come_back()

    def _come_back(self) -> None:
        due = self.switch.wakeup()
        if due is not None and due < self._wake_at:
            self._wake_at = due
            self._clock.at(max(due, self._clock.now + 1), self._wake, due)

    def _wake(self, due: int, _: object) -> None:
        if due != self._wake_at:
            return  # an earlier wake-up was asked for meanwhile, and has done this one's work
        self._wake_at = _NEVER
        self.switch.tick(self._clock.now)
        self._serve()

    def pull(self, channel: Channel, _: object) -> None:
        """The channel is free: its port's next frame, if there is one."""
        now = self._clock.now
        frame = self._transmit(channel.port, now)
        if frame is None:
            channel.idle = True
        else:
            channel.send(frame, now)
        if self._copies:
            self._serve()

    def port_changed(self, port: int, up: bool) -> None:
        """Carrier. What was queued on a port that lost it is dropped by the switch."""
        self.switch.port_changed(port, up, self._clock.now)
        self._serve()


def _copies_in_egress(switch: EmbeddedSwitch) -> bool:
    """Whether sending from one port may put frames into the queues of others."""
    pipeline = switch.pipeline
    return pipeline is not None and any(
        primitive.op in _COPYING for action in pipeline.program.actions for primitive in action.primitives
    )


class NicNode:
    """A NIC and the channels that leave its ports. `announce` is called when it may have completions or events.

    Where packets occupy the NIC, `engine` makes them wait for each other, and is who receives frames.
    """

    __slots__ = (
        "_channels",
        "_clock",
        "_receive",
        "_tick",
        "_transmit",
        "_wake_at",
        "_wakeup",
        "_watchers",
        "announce",
        "engine",
        "name",
        "nic",
    )

    engine_class: ClassVar[type[PacketEngine]] = PacketEngine

    def __init__(
        self, clock: Clock, name: str, nic: Nic, channels: Sequence[Channel], timing: HardwareTiming | None = None
    ) -> None:
        self.name = name
        self.engine: PacketEngine | None = None
        if timing is not None and timing.occupies:
            self.engine = self.engine_class(clock, timing, self.receive, self.ask)
        self.announce: Callable[[], object] | None = None
        self._clock = clock
        self._channels = channels
        self._watchers: list[Callable[[bytes], None]] = []
        self.replace(nic)

    def replace(self, nic: Nic) -> None:
        """Make this the device. Observers of the old device's frames observe those of the new one."""
        self.nic = nic
        self.announce = None
        self._receive = nic.receive
        self._transmit = nic.transmit if self.engine is None else self.engine.paced(nic.transmit)
        self._wakeup = nic.wakeup
        self._tick = nic.tick
        self._wake_at = _NEVER  # of the earliest wake-up in the event queue
        for left in self._watchers:
            self._watch(left)

    def watch(self, left: Callable[[bytes], None]) -> None:
        """Tell `left` from now on of every frame that leaves."""
        self._watchers.append(left)
        self._watch(left)

    def filter(self, takes: Callable[[bytes], bool]) -> None:
        """Until the device is replaced, it gets only those frames that `takes` is true for."""
        receive = self._receive

        def filtered(port: int, frame: bytes | bytearray | memoryview, now: int) -> None:
            if takes(bytes(frame)):
                receive(port, frame, now)

        self._receive = filtered

    def _watch(self, left: Callable[[bytes], None]) -> None:
        transmit = self._transmit

        def watched(port: int, now: int) -> bytes | None:
            frame = transmit(port, now)
            if frame is not None:
                left(frame)
            return frame

        self._transmit = watched

    def receive(self, port: int, frame: bytes) -> None:
        """A frame arrived."""
        self._receive(port, frame, self._clock.now)
        self.poke()
        if self.announce is not None:
            self.announce()

    def ask(self, port: int) -> None:
        """Ask `port`, if it is idle, before all others that are."""
        for channel in self._channels:
            if channel.port == port and channel.idle:
                self.pull(channel, None)
        self.poke()

    def poke(self) -> None:
        """The NIC had some input: ask idle ports, run what is due, note when to come back."""
        now = self._clock.now
        transmit = self._transmit
        while True:
            for channel in self._channels:
                if channel.idle:
                    frame = transmit(channel.port, now)
                    if frame is not None:
                        channel.send(frame, now)
            due = self._wakeup()
            if due is None:
                return
            if due > now:
                break
            self._tick(now)
        if due < self._wake_at:
            self._wake_at = due
            self._clock.at(due, self._wake, due)

    def _wake(self, due: int, _: object) -> None:
        if due != self._wake_at:
            return  # an earlier wake-up was asked for meanwhile, and has done this one's work
        self._wake_at = _NEVER
        self._tick(due)
        self.poke()
        if self.announce is not None:
            self.announce()

    def pull(self, channel: Channel, _: object) -> None:
        """The channel is free: its port's next frame, if there is one."""
        now = self._clock.now
        frame = self._transmit(channel.port, now)
        if frame is None:
            channel.idle = True
        else:
            channel.send(frame, now)
        due = self._wakeup()
        if due is not None and due < self._wake_at:
            if due <= now:  # sending here made another port ready
                self._tick(now)
                self.poke()
            else:
                self._wake_at = due
                self._clock.at(due, self._wake, due)

    def port_changed(self, port: int, up: bool) -> None:
        """Carrier."""
        self.nic.port_changed(port, up, self._clock.now)
        self.poke()
        if self.announce is not None:
            self.announce()
