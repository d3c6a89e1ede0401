"""Scheduler: the queue pair that sends next on a port, and the times at which queue pairs are woken.

Each port has two queues of *sources*: those with control packets and those with data. A source is in a port's queue at
most once (``control_mask`` and ``data_mask`` say where) and is taken from the front. A source that turns out to have
nothing for this port leaves the queue, and enters it again when it is activated. Queues are linked lists, since every
packet moves an entry from the front to the back.

Control packets, which are all small, are served round robin; probes in the data class are among them, but leave only
where data may (``holds``). Data is shared by bytes, whatever the path MTUs, by deficit round robin. The source at the
front sends until it has used up its allowance on this port, then gets another quantum and goes to the back; one packet
may exceed the allowance. The quantum is the longest frame so far, so each turn is at least one packet, sources with
equal frames alternate packet by packet, and the work per packet does not depend on the number of sources. A source
keeps its allowance, at most one quantum, when it leaves the queue, so that leaving and entering gains nothing.

Sending on one port can make a source ready on another that has already reported nothing to send (planes are kept
balanced). Then ``wakeup`` returns "at once", so that the driver serves that port again.

Timers are a heap with one valid entry per source: ``timer_at``. Entries that no longer match are skipped, and removed
when there are too many. A source that is called early returns its next time, so deadlines that only move later cost
nothing per packet.

Which ports have sources queued, and when the first timer is due, is kept beside queues and heap: both are asked for
after every packet, when most queues of a NIC with many ports are empty and not in the cache.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heapify, heappop, heappush
from typing import Final

from mypy_extensions import mypyc_attr

_NEVER: Final = (1 << 62) - 1
_UNKNOWN: Final = -1
_SLACK: Final = 64  # outdated timer entries that are always tolerated


@mypyc_attr(allow_interpreted_subclasses=True)
class PacketSource(ABC):
    """Something that sends packets and has timers: a queue pair, or the endpoint operations of a peer."""

    __slots__ = ("control_entries", "control_mask", "data_entries", "data_mask", "timer_at")

    def __init__(self) -> None:
        self.control_entries: list[QueueEntry] | None = None  # by port; created when it first has something to send
        self.data_entries: list[QueueEntry] | None = None
        self.control_mask = 0
        self.data_mask = 0
        self.timer_at = 0

    @abstractmethod
    def transmit_control(self, port: int, now: int) -> bytes | None:
        """Next control packet for `port`."""

    @abstractmethod
    def transmit_data(self, port: int, now: int) -> bytes | None:
        """Next data packet for `port`."""

    @abstractmethod
    def data_ports(self) -> int:
        """Mask of the ports where data waits to be sent."""

    @abstractmethod
    def on_timer(self, now: int) -> int:
        """Do what is due; return the next time to be called, 0 for none."""


class QueueEntry:
    """A source's entry in one queue of one port."""

    __slots__ = ("allowance", "behind", "source")

    def __init__(self, source: PacketSource) -> None:
        self.source = source
        self.behind: QueueEntry | None = None
        self.allowance = 0  # bytes of data that it may still send in this turn


class ReadyQueue:
    """Sources that have something to send on one port, in the order of their turns."""

    __slots__ = ("first", "last")

    def __init__(self) -> None:
        self.first: QueueEntry | None = None
        self.last: QueueEntry | None = None

    def append(self, entry: QueueEntry) -> None:
        """Enter at the back."""
        last = self.last
        if last is None:
            self.first = entry
        else:
            last.behind = entry
        self.last = entry

    def leave(self, first: QueueEntry) -> None:
        """`first` leaves the front."""
        behind = first.behind
        self.first = behind
        if behind is None:
            self.last = None
        else:
            first.behind = None

    def rotate(self, first: QueueEntry) -> None:
        """Move `first`, which is not the only entry, from the front to the back."""
        self.first = first.behind
        first.behind = None
        self.append(first)


class Scheduler:
    """Ready queues and timers of one NIC."""

    def __init__(self, ports: int) -> None:
        self._control = [ReadyQueue() for _ in range(ports)]
        self._data = [ReadyQueue() for _ in range(ports)]
        self._all = (1 << ports) - 1
        self.waiting = 0  # mask of ports where sources are queued
        self.empty_ports = 0  # ports that had nothing to send since the last input
        self.kick = False
        self._paused = (0, 0)  # masks of ports that neighbours have paused, for data and for control: see pause.py
        self._stopped = 0  # mask of all ports while the NIC sends nothing: see port_remap.py
        self.held_control = self.held_data = 0  # masks of ports that may not send, for either reason
        self._held: list[dict[PacketSource, None]] = [{} for _ in range(ports)]  # by port: sources with held probes
        self._quantum = 1  # bytes
        self._heap: list[tuple[int, int, PacketSource]] = []
        self._serial = 0
        self._armed = 0  # sources with a valid entry
        self._due = _NEVER  # the earliest time of a valid entry

    # ---- ready queues ----

    def activate_control(self, source: PacketSource, mask: int) -> None:
        """`source` has a control packet that may leave on any port in `mask`."""
        missing = mask & ~source.control_mask
        if missing:
            entries = source.control_entries
            if entries is None:
                entries = source.control_entries = [QueueEntry(source) for _ in self._control]
            source.control_mask |= missing
            self._enter(self._control, entries, missing)

    def activate_data(self, source: PacketSource, mask: int) -> None:
        """`source` has data that may leave on any port in `mask`."""
        missing = mask & ~source.data_mask
        if missing:
            entries = source.data_entries
            if entries is None:
                entries = source.data_entries = [QueueEntry(source) for _ in self._data]
            source.data_mask |= missing
            self._enter(self._data, entries, missing)

    def _enter(self, queues: list[ReadyQueue], entries: list[QueueEntry], mask: int) -> None:
        if mask & self.empty_ports:
            self.kick = True
        self.waiting |= mask
        while mask:
            low = mask & -mask
            mask ^= low
            port = low.bit_length() - 1
            queues[port].append(entries[port])

    def pause(self, data: int, control: int) -> None:
        """Set the ports that neighbours do not let send data, and those for control packets, from now on."""
        self._paused = data, control
        self._hold()

    def stop(self, stopped: bool) -> None:
        """Send nothing on any port from now on, or send again where no pause forbids it."""
        self._stopped = self._all if stopped else 0
        self._hold()

    def _hold(self) -> None:
        data, control = self._paused[0] | self._stopped, self._paused[1] | self._stopped
        released = self.held_data & ~data
        self.held_data, self.held_control = data, control
        while released:
            low = released & -released
            released ^= low
            waiting = self._held[low.bit_length() - 1]
            for source in waiting:
                self.activate_control(source, low)
            waiting.clear()

    def holds(self, source: PacketSource, port: int) -> bool:
        """Whether `port` may not send data, nor probes in the data class; if so, `source` is queued once it may."""
        if not self.held_data >> port & 1:
            return False
        self._held[port][source] = None
        return True

    def input_begins(self) -> None:
        """The driver serves all idle ports after this input, so earlier answers no longer matter."""
        self.empty_ports = 0
        self.kick = False

    def first_waiting(self, ports: int) -> int:
        """The lowest port of the mask `ports` where a source is queued, as a mask; 0 for none.

        Those before it, which are empty, count as asked in vain.
        """
        waiting = ports & self.waiting
        first = waiting & -waiting
        self.empty_ports |= ports & (first - 1)
        return first

    def all_waiting(self, ports: int) -> int:
        """The ports of the mask `ports` where sources are queued; the others count as asked in vain."""
        waiting = ports & self.waiting
        self.empty_ports |= ports ^ waiting
        return waiting

    def _leave(self, queue: ReadyQueue, first: QueueEntry, port: int) -> None:
        """The source at the front of a queue of `port` has nothing for it."""
        queue.leave(first)
        if self._control[port].first is None and self._data[port].first is None:
            self.waiting &= ~(1 << port)

    def transmit(self, port: int, now: int) -> bytes | None:
        """Next frame for `port`, control first."""
        bit = 1 << port
        queue = self._control[port]
        while (entry := queue.first) is not None and not self.held_control & bit:
            source = entry.source
            frame = source.transmit_control(port, now)
            if frame is not None:
                if entry.behind is not None:
                    queue.rotate(entry)
                return frame
            self._leave(queue, entry, port)
            source.control_mask &= ~bit
        queue = self._data[port]
        while (entry := queue.first) is not None and not self.held_data & bit:
            source = entry.source
            frame = source.transmit_data(port, now)
            if frame is not None:
                size = len(frame)
                if size > self._quantum:
                    self._quantum = size
                left = entry.allowance - size
                if left <= 0:
                    left += self._quantum
                    if entry.behind is not None:
                        queue.rotate(entry)
                entry.allowance = left
                if source.data_mask != self._all:
                    self.activate_data(source, source.data_ports())
                return frame
            self._leave(queue, entry, port)
            source.data_mask &= ~bit
        self.empty_ports |= bit
        return None

    # ---- timers ----

    def arm(self, source: PacketSource, when: int) -> None:
        """Call `source.on_timer` at `when` or earlier."""
        at = source.timer_at
        if at == 0 or when < at:
            if at == 0:
                self._armed += 1
            source.timer_at = when
            if when < self._due:
                self._due = when
            self._serial += 1
            heap = self._heap
            heappush(heap, (when, self._serial, source))
            if len(heap) > 4 * self._armed + _SLACK:
                heap[:] = [entry for entry in heap if entry[2].timer_at == entry[0]]
                heapify(heap)

    def disarm(self, source: PacketSource) -> None:
        """Cancel the timer of `source`."""
        if source.timer_at:
            if source.timer_at == self._due:
                self._due = _UNKNOWN
            source.timer_at = 0
            self._armed -= 1

    def wakeup(self) -> int | None:
        """Earliest time when something is due; 0 means at once."""
        if self.kick:
            return 0
        due = self._due
        if due == _UNKNOWN:
            heap = self._heap
            while heap and heap[0][2].timer_at != heap[0][0]:
                heappop(heap)
            due = self._due = heap[0][0] if heap else _NEVER
        return None if due == _NEVER else due

    def tick(self, now: int) -> None:
        """Call every source that is due."""
        heap = self._heap
        if heap and heap[0][0] <= now:
            self._due = _UNKNOWN
        while heap and heap[0][0] <= now:
            when, _serial, source = heappop(heap)
            if source.timer_at != when:
                continue
            source.timer_at = 0
            self._armed -= 1
            again = source.on_timer(now)
            if again:
                self.arm(source, max(again, now + 1))
