"""The types of ``native`` (native.c). Times are integer ns since the beginning of the world, rates b/s, sizes bytes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from simulation.channel import ChannelWatcher
from topologies.fabric import LinkEnd

Frame = bytes  # whole, with the Ethernet header and without FCS
Handler = Callable[[Any, Any], object]

END_OF_TIME: Final[int]
"""No clock shows this many ns, 146 years."""

class Clock:
    """The time of one world, and the queue of what is to happen (event_queue.h).

    Events are in a total order: earlier time first, and at the same time whatever was scheduled first. There is no
    cancelling: a handler whose reason has gone does nothing.
    """

    now: Final[int]
    events: Final[int]
    """Handled so far."""
    running: Final[bool]
    least_queued: int
    """Where so many events are queued, memory that the next ones need is prefetched (prefetch.h)."""
    foreseen: Final[int]
    """Events that it was prefetched for."""

    def at(self, when: int, handler: Handler, a: object = None, b: object = None) -> None:
        """Call ``handler(a, b)`` when the clock shows `when`. SimulationError for a time before now, or too late."""

    def stop(self) -> None:
        """Make :meth:`run` return after the event that is being handled."""

    def run(self, until: int | None = None) -> bool:
        """Handle events up to and including time `until` (None: until none is left), or until somebody calls stop.

        True when stopped. Otherwise the clock then shows `until`, or the time of the last event. SimulationError while
        it runs already.
        """

    def queued(self) -> list[tuple[int, int, object]]:
        """A list of what is to happen: time, serial number, and the handler or whose event it is."""

class Channel:
    """One direction of a link (channel.h): `source` and `target` are its ends, `port` that of the source.

    `rate` and `delay` are as faults make them now. Counters: `frames` and `bytes` that it took, frames that were `lost`
    and `reordered`.
    """

    name: Final[str]
    source: Final[LinkEnd]
    target: Final[LinkEnd]
    port: Final[int]
    rate: Final[int]
    delay: Final[int]
    down: Final[bool]
    hold_back: Final[Callable[[], int] | None]
    frames: Final[int]
    bytes: Final[int]
    lost: Final[int]
    reordered: Final[int]
    idle: bool
    """Whether its sender had nothing when it was asked last."""

    def __new__(cls, clock: Clock, name: str, source: LinkEnd, target: LinkEnd, rate: int, delay: int) -> Channel: ...
    def join(
        self, sender: object, receiver: object, number: int = 0,
        traced: Callable[[int, int, int, Frame], object] | None = None, /,
    ) -> None:  # fmt: skip
        """Connect both ends, SwitchPorts or NicPorts.

        `traced` gets time, `number`, port and frame of each arrival. Another object is asked ``pull(channel)`` when the
        channel is free, and given ``receive(port, frame)``.
        """

    def watch(self, watcher: ChannelWatcher | None, /) -> None:
        """Report to `watcher`, of which there is one at most, what becomes of every frame from now on."""

    def send(self, frame: Frame, now: int, /) -> None:
        """Start a frame; the channel must be free. SimulationError if it would arrive after the end of time."""

    def set_up(self, up: bool, /) -> None:
        """Take the channel down, which loses what is on its way, or up."""

    def shape(self, rate: int | None = None, extra_delay: int = 0, hold_back: Callable[[], int] | None = None) -> None:
        """From now on frames have this rate, unless it is above the channel's own, and take longer.

        `hold_back` says of each frame how much later than others it arrives (0: not at all).
        """

class SwitchPorts:
    """The ports of an embedded switch (switch_ports.h)."""

    def __new__(
        cls, clock: Clock, channels: Mapping[int, Channel], verbs: tuple[int, ...], longest_frame: int, copies: bool,
        pauses: bool,
    ) -> SwitchPorts:  # fmt: skip
        """`channels` leave its ports. `verbs` are the addresses of the switch and of its functions in C.

        `copies`: sending may make other ports ready; `pauses`: it has priority flow control.
        """

    def receive(self, port: int, frame: Frame, /) -> None:
        """A frame arrived: it, or what the program makes of it, is queued; idle channels start at once."""

    def serve(self) -> None:
        """Start what can start on the ports that have become ready. SimulationError when the switch is closed."""

    def observe(
        self, receive: Callable[[int, Frame, int], object], transmit: Callable[[int, int], Frame | None], /
    ) -> None:
        """From now on call these instead of the switch's own verbs."""

    def close(self) -> None:
        """The switch is about to be closed."""

class NicPorts:
    """The ports of a NIC, with what occupies it (nic_ports.h, packet_engine.h)."""

    announce: Callable[[], object] | None
    """Called when the NIC may have completions or events."""
    left: Callable[[Frame], object] | None
    """Called with each frame that leaves."""

    def __new__(cls, clock: Clock, channels: Sequence[Channel], packet: int, pcie_rate: int) -> NicPorts:
        """`channels` leave its ports, in their order; times as of HardwareTiming. ValueError for more than 62 ports."""

    def drive(self, receive: Any, transmit: Any, wakeup: Any, tick: Any, /) -> None:
        """Drive another NIC by its verbs from now on. Nobody is announced to."""

    def observe(self, receive: Any, transmit: Any, wakeup: Any, tick: Any, /) -> None:
        """From now on call these instead of the NIC's own verbs, for each frame and without any short cut."""

    def shorten(
        self, transmit_first: Any, has_news: Any, receiver: Any, carry_frame: Any, answer_due: Any, outbox: Any, /
    ) -> None:  # fmt: skip
        """The NIC's verbs are those of Nic: ask it by the first two, too.

        Frames for the NIC go to its datapath first (`receiver`, `carry_frame`, `answer_due`), and its data packets may
        stay in place (`outbox`).
        """

    def receive(self, port: int, frame: Frame, /) -> None:
        """A frame arrived."""

    def poke(self) -> None:
        """The NIC had some input: ask idle ports, run what is due, note when to come back."""
