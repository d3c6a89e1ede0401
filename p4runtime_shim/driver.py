"""The real-time port driver: packets between switches and network interfaces, in C, in one thread, without the GIL.

    driver = PortDriver({switch: {1: "eth0", 2: "eth1"}})
    thread = threading.Thread(target=driver.run)
    ...
    driver.stop()
    thread.join()
    driver.close()      # before the switches are closed

A port whose interface goes down or vanishes is down, is told to the switch, and comes back with the interface; carrier
is followed through rtnetlink. Interfaces are opened promiscuous and raw; segmentation and checksum offloads should be
off at both ends of a veth pair (`ethtool -K DEV tx off rx off tso off gso off gro off`): a frame that is longer than
`max_frame`, or comes without its checksum, is counted (`rx_too_long`, `rx_no_checksum`). VLAN offload does not matter:
a tag that the kernel has taken off a received frame is put back.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from p4runtime_shim.native import load_engine

DEFAULT_SOCKET_BUFFER = 4 << 20  # bytes of kernel memory; 4 KB frames take about 9 KB each
DEFAULT_MAX_FRAME = 9216
_DELAY_BUCKETS = 40  # DRV_DELAY_BUCKETS
COALESCE_NS = 50_000  # ports with rates share a wake-up when their lines come free this close together


class DriverError(Exception):
    """An interface cannot be used; the message says which and what to do."""


class Driven(Protocol):
    """What the driver needs of a switch."""

    @property
    def handle(self) -> int:
        """Address of the C switch."""
        ...


@dataclass(frozen=True, slots=True)
class DriverPortStats:
    """Figures of one port since the driver was made (engine/driver.h says what each means)."""

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


@dataclass(frozen=True, slots=True)
class Delays:
    """How long the machine delayed frames (engine/driver_delay.c says what that is): total in ns, and a histogram.

    `histogram` counts frames delayed by 0 ns, then by 2^(i-1) ns or more but less than 2^i, to the last that is not 0.
    """

    total_ns: int
    histogram: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PortDelays:
    """What was measured at a port. `line_idle_ns`: time that its line stood idle although a frame waited.

    That is without what the line made up for (`slack` of `Switch.set_port_rate`).
    """

    arrivals: Delays
    departures: Delays
    line_idle_ns: int


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


class PortDriver:
    """One driver for any number of switches; `ports` names the interface of each port of each switch.

    Frames leave past the queueing disciplines of the interfaces, or through them with `qdisc` (for tc's netem and tbf).
    What such a discipline holds back fills the send buffer before frames wait in the queues of the switch; with
    `bmv2_send_buffer` it is as small as BMv2's (net.core.wmem_default).
    `cache` is the build cache of the switches (they and the driver must use the same engine).
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
        cache: Path | None = None,
    ) -> None:
        self._library = _declare(load_engine(cache=cache).library)
        options = _COptions(max_frame, socket_buffer, bmv2_send_buffer, coalesce_ns, qdisc)
        self._driver = self._library.drv_create(ctypes.byref(options))
        if not self._driver:
            raise DriverError("the port driver cannot be set up: out of memory or of file descriptors (see ulimit -n)")
        self._indexes: dict[tuple[Any, int], int] = {}
        try:
            for switch, interfaces in ports.items():
                for port, interface in interfaces.items():
                    self._indexes[switch, port] = self._add(switch, port, interface)
        except DriverError:
            self.close()
            raise

    def _add(self, switch: Driven, port: int, interface: str) -> int:
        index: int = self._library.drv_add_port(self._driver, switch.handle, port, os.fsencode(interface))
        if index < 0:
            raise DriverError(_explain(-index, port, interface))
        return index

    def run(self) -> None:
        """Move packets until `stop`; blocks without the GIL. DriverError when it cannot go on."""
        result = self._library.drv_run(self._driver)
        if result < 0:
            raise DriverError(f"the port driver stopped: {os.strerror(-result)}")

    def stop(self) -> None:
        """Make `run` return, from any thread."""
        self._library.drv_stop(self._driver)

    def close(self) -> None:
        """Close all sockets; after `run` has returned."""
        if self._driver:
            self._library.drv_destroy(self._driver)
            self._driver = None

    def hold_down(self, switch: Any, port: int, down: bool = True) -> None:
        """Hold a port down whatever its carrier, or let it follow its carrier again."""
        self._library.drv_hold_down(self._driver, self._indexes[switch, port], down)

    def stats(self, switch: Any, port: int) -> DriverPortStats:
        """Figures of one port, from any thread."""
        raw = _CStats()
        self._library.drv_stats(self._driver, self._indexes[switch, port], ctypes.byref(raw))
        return DriverPortStats(**{item.name: getattr(raw, item.name) for item in fields(DriverPortStats)})

    def measure_delays(self, on: bool) -> None:
        """Measure delays from now on, in all switches, or no more (the start). It costs time for every frame."""
        self._library.drv_measure_delays(self._driver, on)

    def delays(self, switch: Any, port: int) -> PortDelays:
        """What was measured at one port so far, from any thread."""
        arrivals, departures, idle = _CDelays(), _CDelays(), ctypes.c_uint64()
        into = map(ctypes.byref, (arrivals, departures, idle))
        self._library.drv_delays(self._driver, self._indexes[switch, port], *into)
        return PortDelays(_delays(arrivals), _delays(departures), idle.value)


def _delays(raw: _CDelays) -> Delays:
    histogram = list(raw.histogram)
    while histogram and not histogram[-1]:
        histogram.pop()
    return Delays(raw.total, tuple(histogram))


def _explain(code: int, port: int, interface: str) -> str:
    if code in (errno.ENODEV, errno.ENXIO):
        return f"port {port}: there is no interface {interface}; create it first (ip link shows those that exist)"
    if code in (errno.EPERM, errno.EACCES):
        return f"port {port}: opening interface {interface} needs root (or CAP_NET_RAW and CAP_NET_ADMIN); use sudo"
    if code == errno.ENOPROTOOPT:
        return f"port {port}: the kernel lacks PACKET_IGNORE_OUTGOING; Linux 4.20 or newer is needed"
    if code == errno.EINVAL:
        return f"port {port} (interface {interface}) is given twice or is no port number"
    return f"port {port}: interface {interface} cannot be opened: {os.strerror(code)}"


def _declare(library: Any) -> Any:
    """The engine's library, with the types of the driver's functions declared."""
    pointer, integer, index = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint
    for name, result, arguments in (
        ("drv_create", pointer, (pointer,)),
        ("drv_destroy", None, (pointer,)),
        ("drv_add_port", integer, (pointer, pointer, index, ctypes.c_char_p)),
        ("drv_run", integer, (pointer,)),
        ("drv_stop", None, (pointer,)),
        ("drv_hold_down", integer, (pointer, index, integer)),
        ("drv_stats", integer, (pointer, index, pointer)),
        ("drv_measure_delays", None, (pointer, integer)),
        ("drv_delays", integer, (pointer, index, pointer, pointer, pointer)),
    ):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


__all__ = ["Delays", "Driven", "DriverError", "DriverPortStats", "PortDelays", "PortDriver"]
