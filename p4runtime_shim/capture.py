"""Packet capture: a pcap file for each port and direction, as `simple_switch --pcap` writes them.

    capture = Capture(switch, Path("captures"), {1: "eth0", 2: "eth1"})
    ...
    capture.close()             # eth0_in.pcap, eth0_out.pcap, eth1_in.pcap, eth1_out.pcap are complete

`in` has the frames received, `out` the frames sent. The switch copies frames into a buffer of fixed size, and one
thread writes it to the files (engine/device/capture.c), so packets never wait for the disk. A file that cannot be
written is reported once and retried with the next frames; lost frames are counted.
"""

from __future__ import annotations

import ctypes as c
import errno
import logging
import os
import select
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from p4runtime_shim.ctypes_bindings import SwCaptureStats
from p4runtime_shim.switch import EmbeddedSwitch

BUFFER_BYTES = 4 << 20  # of each of the two buffers that hold frames for the disk
_HEADER = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)  # nanoseconds, Ethernet
_GATHER_S = 0.005  # frames within this time share a wake-up
_DIRECTIONS = ("in", "out")

_log = logging.getLogger(__name__)


class CaptureError(Exception):
    """A capture cannot be started; the message says why."""


@dataclass(frozen=True, slots=True)
class CaptureStats:
    """Frames written, frames lost (buffer full, or the file cannot be written), and the current problem, or ""."""

    frames: int
    lost: int
    problem: str


class Capture:
    """A running capture of one switch. `names` names the files of each port; existing files are replaced."""

    def __init__(
        self,
        switch: EmbeddedSwitch,
        directory: Path,
        names: Mapping[int, str],
        *,
        buffer_bytes: int = BUFFER_BYTES,
        wall: int | None = None,
    ) -> None:
        """Start. `wall` (ns) is added to the switch's times; the default turns them into the time of day."""
        self.directory = directory
        self._library = switch.native.library
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stopping = threading.Event()
        self._files: list[int] = []
        self._final: CaptureStats | None = None
        self._problem = 0
        offset = time.time_ns() - time.monotonic_ns() if wall is None else wall
        self._capture = self._library.sw_capture_start(switch.handle, buffer_bytes, offset, self._event)
        try:
            if not self._capture:
                raise CaptureError("the switch has a capture already, or is out of memory")
            self._open(directory, names)
        except CaptureError:
            self._free()
            raise
        self._thread = threading.Thread(target=self._write, name="capture", daemon=True)
        self._thread.start()

    def _open(self, directory: Path, names: Mapping[int, str]) -> None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for port, name in names.items():
                for number, direction in enumerate(_DIRECTIONS):
                    path = directory / f"{name}_{direction}.pcap"
                    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
                    self._files.append(file)
                    os.write(file, _HEADER)
                    self._library.sw_capture_file(self._capture, port, number, file)
        except OSError as error:
            raise CaptureError(f"cannot capture to {directory}: {error.strerror}") from None

    def stats(self) -> CaptureStats:
        """Counters so far."""
        if self._final is not None:
            return self._final
        raw = SwCaptureStats()
        self._library.sw_capture_stats(self._capture, c.byref(raw))
        return CaptureStats(raw.frames, raw.lost, os.strerror(raw.error) if raw.error else "")

    def close(self) -> CaptureStats:
        """Stop, write what is buffered, close the files; before the switch is closed. Further calls do nothing."""
        if self._final is None:
            self._library.sw_capture_stop(self._capture)
            self._stopping.set()
            os.eventfd_write(self._event, 1)
            self._thread.join()
            final = self.stats()
            self._free()
            self._final = final
        return self._final

    def _free(self) -> None:
        if self._capture:
            self._library.sw_capture_stop(self._capture)
            self._library.sw_capture_free(self._capture)
            self._capture = None
        for file in self._files:
            os.close(file)
        os.close(self._event)

    def _write(self) -> None:
        waiting = select.poll()  # not select(), which takes no descriptor above 1023
        waiting.register(self._event, select.POLLIN)
        while not self._stopping.is_set():
            waiting.poll()
            os.eventfd_read(self._event)
            self._stopping.wait(_GATHER_S)
            self._report(self._library.sw_capture_write(self._capture))
        self._report(self._library.sw_capture_write(self._capture))

    def _report(self, problem: int) -> None:
        if problem != self._problem and problem:
            hint = "; forwarding is not affected" if problem == errno.ENOSPC else ""
            _log.warning("cannot write captures to %s: %s%s", self.directory, os.strerror(problem), hint)
        elif problem != self._problem:
            _log.warning("captures to %s can be written again", self.directory)
        self._problem = problem


__all__ = ["Capture", "CaptureError", "CaptureStats"]
