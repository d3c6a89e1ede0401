"""The real-time port driver: moves packets between switches and interfaces, in C, in one thread, without the GIL.

    driver = PortDriver({switch: {1: "eth0", 2: "eth1"}})
    thread = threading.Thread(target=driver.run)
    ...
    driver.stop()
    thread.join()
    driver.close()      # before the switches are closed

When an interface goes down or disappears, its port goes down, until the interface returns; the driver follows carrier
through rtnetlink and informs the switch. Interfaces are opened raw and promiscuous. Segmentation and checksum offloads
should be off at both ends of a veth pair (`ethtool -K DEV tx off rx off tso off gso off gro off`): frames that are
longer than `max_frame`, or lack their checksum, are counted (`rx_too_long`, `rx_no_checksum`). VLAN offload does not
matter: a tag that the kernel removed from a received frame is put back.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from mrc_common.delays import DelayHistogram, PortDelays
from mrc_common.frame_rings import FrameRingError, RingEnd
from mrc_common.wire_counters import WireCounters
from p4runtime_shim.ctypes_bindings import Signatures, declared, load_engine

DEFAULT_SOCKET_BUFFER = 4 << 20  # bytes of kernel memory; 4 KB frames take about 9 KB each
DEFAULT_MAX_FRAME = 9216
_DELAY_BUCKETS = 40  # DRV_DELAY_BUCKETS
SHARED_MEMORY = 256 << 20  # bytes at most that all fast ports together share with the kernel
_SHARED_SLOTS = range(1024, 2048 + 1)  # of each: with fewer, more would be lost than in a socket
_SLOT_HEADER, _SLOT_ALIGN, _SHARED_BLOCK = 64 + 16, 16, 1 << 16  # bytes (mrc_common/packet_ring.h)
COALESCE_NS = 150_000  # ports with rates share a wake-up if their links become free this close together


_P, _I, _U = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint
_SIGNATURES: Signatures = {
    "drv_create": (_P, (_P,)),
    "drv_destroy": (None, (_P,)),
    "drv_add_port": (_I, (_P, _P, _U, ctypes.c_char_p, _U)),
    "drv_join": (_I, (_P, _U, _U)),
    "drv_attach_rings": (_I, (_P, _U, _P, ctypes.c_size_t, _U, _I, _I)),
    "drv_count_wire": (_I, (_P, _U, _P)),
    "drv_run": (_I, (_P,)),
    "drv_stop": (None, (_P,)),
    "drv_hold_down": (_I, (_P, _U, _I)),
    "drv_stats": (_I, (_P, _U, _P)),
    "drv_measure_delays": (None, (_P, _I)),
    "drv_delays": (_I, (_P, _U, _P, _P, _P)),
}


class PortDriverError(Exception):
    """An interface cannot be used; the message says which and what to do."""


class Driven(Protocol):
    """What the driver needs from a switch."""

    @property
    def handle(self) -> int:
        """Address of the C switch."""
        ...


@dataclass(frozen=True, slots=True)
class DriverPortStats:
    """Counters of one port since the driver was created (explained in engine/driver/port_driver.h)."""

    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    rx_dropped: int
    rx_too_long: int
    rx_no_checksum: int
    rx_errors: int
    tx_errors: int
    tx_too_long: int
    tx_blocked: int
    tx_lost: int
    downs: int
    reopens: int
    up: int
    ifindex: int


class _CStats(ctypes.Structure):
    _fields_ = [(item.name, ctypes.c_uint64) for item in fields(DriverPortStats)]


class _CDelays(ctypes.Structure):
    _fields_ = [("total", ctypes.c_uint64), ("histogram", ctypes.c_uint64 * _DELAY_BUCKETS)]


class _COptions(ctypes.Structure):
    _fields_ = [
        ("max_frame", ctypes.c_uint32),
        ("socket_buffer", ctypes.c_uint32),
        ("bmv2_send_buffer", ctypes.c_int32),
        ("coalesce", ctypes.c_int64),
        ("use_qdisc", ctypes.c_int32),
    ]


@dataclass(frozen=True, slots=True)
class Wires:
    """Links whose frames pass the kernel by (engine/driver/port_driver_bypass.c); ends are named by their interfaces.

    Those of `joined` have both ends at this driver; those of `rings` lead to other processes. `counters` is the file in
    which their frames are counted, since the kernel does not (None: nobody does).
    """

    joined: Sequence[tuple[str, str]] = ()
    rings: Mapping[str, RingEnd] = field(default_factory=dict)
    counters: Path | None = None


def shared_slots(ports: int, max_frame: int) -> int:
    """How many frames each of `ports` has room for in memory shared with the kernel; 0: they receive from sockets."""
    size, block = shared_block(max_frame)
    blocks = min(SHARED_MEMORY // (block * max(1, ports)), -(-max(_SHARED_SLOTS) // (block // size)))
    slots = min(blocks * (block // size), max(_SHARED_SLOTS))
    return slots if slots in _SHARED_SLOTS else 0


def shared_block(max_frame: int) -> tuple[int, int]:
    """Bytes of a slot, and of a block, which has whole slots."""
    size = -(-(_SLOT_HEADER + max_frame + 1) // _SLOT_ALIGN) * _SLOT_ALIGN
    block = _SHARED_BLOCK
    while block < size:
        block *= 2
    return size, block


class PortDriver:
    """One driver for any number of switches; `ports` names the interface of each port of each switch.

    Frames bypass the interfaces' queueing disciplines, or go through them with `qdisc` (for tc's netem and tbf). Frames
    held by such a discipline fill the send buffer first, then the queues of the switch; with `bmv2_send_buffer` the
    buffer is as small as BMv2's (net.core.wmem_default). `cache` is the build cache of the switches, which must use the
    same engine as the driver. `wires` says which links have more than their interfaces. The ports at interfaces in
    `fast` receive in memory that they share with the kernel (`shared_slots`).
    """

    def __init__(
        self,
        ports: Mapping[Any, Mapping[int, str]],
        *,
        max_frame: int = DEFAULT_MAX_FRAME,
        socket_buffer: int = DEFAULT_SOCKET_BUFFER,
        coalesce_ns: int = COALESCE_NS,
        qdisc: bool = False,
        bmv2_send_buffer: bool = False,
        wires: Wires | None = None,
        fast: Collection[str] = (),
        cache: Path | None = None,
    ) -> None:
        self._library = declared(ctypes.CDLL(str(load_engine(cache=cache).path)), _SIGNATURES)
        options = _COptions(max_frame, socket_buffer, bmv2_send_buffer, coalesce_ns, qdisc)
        self._handle = self._library.drv_create(ctypes.byref(options))
        if not self._handle:
            raise PortDriverError("the port driver cannot start: out of memory or file descriptors (see ulimit -n)")
        self._indexes: dict[tuple[Any, int], int] = {}
        self._memory: list[object] = []  # mapped as long as the driver uses it
        named = {}
        shared = shared_slots(len(fast), max_frame)
        try:
            for switch, interfaces in ports.items():
                for port, interface in interfaces.items():
                    slots = shared if interface in fast else 0
                    self._indexes[switch, port] = named[interface] = self._add(switch, port, interface, slots)
            if wires is not None:
                self._connect(wires, named)
        except PortDriverError:
            self.close()
            raise

    def _add(self, switch: Driven, port: int, interface: str, slots: int) -> int:
        name = os.fsencode(interface)
        index: int = self._library.drv_add_port(self._driver, switch.handle, port, name, slots)
        if index < 0:
            raise PortDriverError(_explain(-index, port, interface))
        return index

    def _connect(self, wires: Wires, ports: Mapping[str, int]) -> None:
        unknown = {*wires.rings, *(name for pair in wires.joined for name in pair)} - ports.keys()
        if unknown:
            raise PortDriverError(f"no port has interface {min(unknown)}, so it can have no wire")
        for near, far in wires.joined:
            self._check(self._library.drv_join(self._driver, ports[near], ports[far]), near)
        for name, end in wires.rings.items():
            self._check(self._attach(ports[name], end), name)
        names = [*wires.rings, *(name for pair in wires.joined for name in pair)]
        if wires.counters is not None:
            try:
                counters = WireCounters(wires.counters, names)
            except OSError as error:
                raise PortDriverError(f"cannot count frames in {wires.counters}: {error.strerror}") from None
            self._memory.append(counters)
            for name in names:
                self._check(self._library.drv_count_wire(self._driver, ports[name], counters.address(name)), name)

    def _attach(self, index: int, end: RingEnd) -> int:
        try:
            memory = end.map()
        except FrameRingError as error:
            raise PortDriverError(str(error)) from None
        where = ctypes.c_char.from_buffer(memory)
        self._memory.append(where)
        numbers = end.receiving, end.bell, end.other_bell
        result: int = self._library.drv_attach_rings(
            self._driver, index, ctypes.addressof(where), len(memory), *numbers
        )
        return result

    @staticmethod
    def _check(result: int, interface: str) -> None:
        if result < 0:
            raise PortDriverError(f"interface {interface} cannot have a wire: {os.strerror(-result)}")

    def run(self) -> None:
        """Move packets until `stop`; blocks without the GIL. Raises PortDriverError if it cannot continue."""
        result = self._library.drv_run(self._driver)
        if result < 0:
            raise PortDriverError(f"the port driver stopped: {os.strerror(-result)}")

    def stop(self) -> None:
        """Make `run` return. Thread-safe."""
        self._library.drv_stop(self._driver)

    def close(self) -> None:
        """Close all sockets. Call it after `run` has returned."""
        if self._handle:
            self._library.drv_destroy(self._handle)
            self._handle = None
            self._memory.clear()

    @property
    def _driver(self) -> int:
        if not self._handle:
            raise PortDriverError("the port driver was closed; only a new one can be used")
        return int(self._handle)

    def hold_down(self, switch: Any, port: int, down: bool = True) -> None:
        """Hold a port down regardless of its carrier, or let it follow its carrier again."""
        self._library.drv_hold_down(self._driver, self._indexes[switch, port], down)

    def stats(self, switch: Any, port: int) -> DriverPortStats:
        """Counters of one port. Thread-safe."""
        raw = _CStats()
        self._library.drv_stats(self._driver, self._indexes[switch, port], ctypes.byref(raw))
        return DriverPortStats(**{item.name: getattr(raw, item.name) for item in fields(DriverPortStats)})

    def measure_delays(self, on: bool) -> None:
        """Start or stop measuring delays in all switches (initially off). It costs time for every frame."""
        self._library.drv_measure_delays(self._driver, on)

    def delays(self, switch: Any, port: int) -> PortDelays:
        """DelayHistogram measured at one port so far. Thread-safe."""
        arrivals, departures, idle = _CDelays(), _CDelays(), ctypes.c_uint64()
        into = map(ctypes.byref, (arrivals, departures, idle))
        self._library.drv_delays(self._driver, self._indexes[switch, port], *into)
        return PortDelays(port, _delays(arrivals), _delays(departures), idle.value)


def _delays(raw: _CDelays) -> DelayHistogram:
    histogram = list(raw.histogram)
    while histogram and not histogram[-1]:
        histogram.pop()
    return DelayHistogram(raw.total, tuple(histogram))


def _explain(code: int, port: int, interface: str) -> str:
    if code in (errno.ENODEV, errno.ENXIO):
        return f"port {port}: there is no interface {interface}; create it first (ip link shows those that exist)"
    if code in (errno.EPERM, errno.EACCES):
        return f"port {port}: opening interface {interface} needs root (or CAP_NET_RAW and CAP_NET_ADMIN); use sudo"
    if code == errno.ENOPROTOOPT:
        return f"port {port}: the kernel lacks PACKET_IGNORE_OUTGOING; Linux 4.20 or newer is needed"
    if code == errno.EINVAL:
        return f"port {port} (interface {interface}) is given twice or is not a port number"
    return f"port {port}: interface {interface} cannot be opened: {os.strerror(code)}"


__all__ = ["DelayHistogram", "Driven", "DriverPortStats", "PortDelays", "PortDriver", "PortDriverError", "Wires"]
