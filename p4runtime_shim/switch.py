"""The embedded switch as a device: its verbs and its settings.

The verbs (receive, transmit, wakeup, tick, port_changed) go straight to the C engine, which protects packets, queues
and tables by one mutex per switch. They may be called from any thread while a driver in C (engine/driver/port_driver.h)
moves packets through `handle`. What P4Runtime reads and writes is in `control_plane` (state/control_plane.py); port
settings, log and counters are here. Time is an argument in nanoseconds; the program's timestamps are microseconds since
`set_epoch` (default 0).
"""

from __future__ import annotations

import ctypes as c
import threading
from collections.abc import Callable, Sequence
from types import TracebackType

from p4runtime_shim.ctypes_bindings import (
    DROP_REASONS,
    NEVER,
    Engine,
    SwConfig,
    SwPauseConfig,
    SwPortSample,
    SwPortStats,
    SwQueueStats,
    load_engine,
    values_of,
)
from p4runtime_shim.entities import LogRecord
from p4runtime_shim.errors import InvalidArgument, NotFound, ResourceExhausted, SwitchClosed
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.state.control_plane import ControlPlane
from p4runtime_shim.traffic_manager import (
    PauseConfig,
    PortDelay,
    PortSample,
    PortStats,
    QueueConfig,
    QueueStats,
    SwitchStats,
)

__all__ = ["EmbeddedSwitch", "Pipeline"]

LONGEST_DELAY_NS = 60_000_000_000
_MAX_PORT = 510
_READY = 64


def _refuse(*_: object) -> int:
    raise SwitchClosed("The switch was closed; only a new one can be used.")


class EmbeddedSwitch:
    """One switch. Ports are numbers 0..510 (511 is the drop port). Errors are subclasses of SwitchError."""

    def __init__(
        self,
        pipeline: Pipeline | None,
        *,
        device_id: int = 0,
        ports: Sequence[int],
        seed: int,
        queues: QueueConfig | None = None,
        native: Engine | None = None,
    ) -> None:
        """A switch with all ports up, and a program unless `pipeline` is None; `seed` is for the program's random()."""
        queues = queues or QueueConfig()
        if len(set(ports)) != len(ports) or any(not 0 <= port <= _MAX_PORT for port in ports):
            raise InvalidArgument(f"ports must be different numbers in 0..{_MAX_PORT}")
        if not 1 <= queues.queues <= 8 or queues.buffer_packets < 1 or not 64 <= queues.max_frame <= 65535:
            raise InvalidArgument("1 to 8 queues, at least one packet buffer, max_frame in 64..65535 bytes")
        self.ports = tuple(ports)
        self.device_id = device_id
        self._samples = (SwPortSample * len(self.ports))()
        self.queues = queues
        self._seed = seed
        self._native = native or (pipeline.native if pipeline else load_engine())
        self._check_engine(pipeline)
        numbers = (c.c_uint16 * max(1, len(ports)))(*ports)
        config = SwConfig(
            device_id,
            queues.queues,
            queues.max_packets,
            queues.max_bytes,
            queues.buffer_packets,
            queues.max_frame,
            seed & ((1 << 64) - 1),
            numbers,
            len(ports),
        )
        handle = self._native.library.sw_create(c.byref(config))
        if not handle:
            raise ResourceExhausted("out of memory")
        self._handle: int = handle
        self._before_close: list[Callable[[], object]] = []
        self._buffer = c.create_string_buffer(queues.max_frame)
        self._view = memoryview(self._buffer)
        self._address = c.addressof(self._buffer)
        self._receive: Callable[..., object] = self._native.hot.sw_dev_receive
        self._transmit: Callable[..., int] = self._native.hot.sw_dev_transmit
        self._wakeup: Callable[..., int] = self._native.hot.sw_dev_next_wakeup
        self._ready = (c.c_uint16 * _READY)()
        self._rates: dict[int, int] = {}
        self._delays: dict[int, PortDelay] = {}
        self._transmit_lock = threading.Lock()
        try:
            self.control_plane = ControlPlane(self._native, handle, self.ports, pipeline)
        except BaseException:
            self._native.library.sw_destroy(handle)
            raise

    # --- life ---

    @property
    def handle(self) -> int:
        """Address of the C `struct sw`, for a driver in C; valid until close(), after which there is SwitchClosed."""
        if not self._handle:
            _refuse()
        return self._handle

    @property
    def native(self) -> Engine:
        """The engine's library, for a driver in C."""
        return self._native

    @property
    def pipeline(self) -> Pipeline | None:
        """The loaded program."""
        return self.control_plane.pipeline

    def set_pipeline(self, pipeline: Pipeline | None) -> None:
        """Replace the program: tables, state and queues start empty; ports, rates, counters and handle stay.

        All or nothing: the new program is prepared in a second switch; if that fails, the old one stays.
        """
        if pipeline is None:
            self.control_plane.unload()
            return
        with self.stage(pipeline) as staged:
            self.adopt(staged)

    def stage(self, pipeline: Pipeline) -> EmbeddedSwitch:
        """A second switch with another program, for `adopt`; it has no driver. Raises SwitchError."""
        self._check_engine(pipeline)
        return EmbeddedSwitch(
            pipeline,
            device_id=self.device_id,
            ports=self.ports,
            seed=self._seed,
            queues=self.queues,
            native=self._native,
        )

    def adopt(self, staged: EmbeddedSwitch) -> None:
        """Swap programs with a staged switch, including all entries and cells. It cannot fail."""
        _both_open = self.handle, staged.handle
        self.control_plane.swap(staged.control_plane)
        self.control_plane, staged.control_plane = staged.control_plane, self.control_plane

    def _check_engine(self, pipeline: Pipeline | None) -> None:
        if pipeline is not None and pipeline.native is not self._native:
            raise InvalidArgument("the pipeline was compiled for another engine library")

    def before_close(self, let_go: Callable[[], object]) -> None:
        """`let_go` is called before the switch is freed: for a driver that uses the handle in the same thread."""
        self._before_close.append(let_go)

    def close(self) -> None:
        """Free the switch; no driver may use the handle any more. Another call does nothing, all other verbs raise."""
        while self._before_close:
            self._before_close.pop()()
        self._receive = self._transmit = self._wakeup = _refuse  # which spares a check for each frame
        handle, self._handle = self._handle, 0
        if handle:
            self.control_plane.unload()
            self._native.library.sw_destroy(handle)

    def __enter__(self) -> EmbeddedSwitch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- device verbs ---

    def receive(self, port: int, frame: bytes, now: int) -> None:
        """A frame arrived: run parser and ingress, and queue the copies. Never raises, whatever the frame contains."""
        self._receive(self._handle, port, frame, len(frame), now)

    def transmit(self, port: int, now: int) -> bytes | None:
        """The next frame of a port, after egress; None if there is none or the link is busy."""
        with self._transmit_lock:
            length = self._transmit(self._handle, port, now, self._address, len(self._view))
            return bytes(self._view[:length]) if length else None

    def wakeup(self) -> int | None:
        """When a link with a backlog is free, a PAUSE ends or is due again, or a wire's frame is there; may be past.

        None: not before there is input.
        """
        when = self._wakeup(self._handle)
        return None if when == NEVER else when

    def tick(self, now: int) -> None:
        """Time passes: pauses end, and are repeated; frames on long wires arrive.

        Some may be left if the program copies packets or has them pass again; `wakeup` is past then.
        """
        self._native.hot.sw_dev_tick(self.handle, now)

    def port_changed(self, port: int, up: bool, now: int) -> None:
        """Carrier changed. Packets queued at a port that goes down still run egress, then are dropped and counted."""
        self._native.library.sw_dev_port_changed(self.handle, port, int(up), now)

    def ready(self) -> list[int]:
        """Ports that became ready to send since the last call, by any verb on any port (switch.h, sw_take_ready)."""
        ports: list[int] = []
        while True:
            count = self._native.library.sw_dev_take_ready(self.handle, self._ready, _READY)
            ports.extend(self._ready[:count])
            if count < _READY:
                return ports

    # --- settings ---

    def _check_port(self, port: int) -> None:
        if port not in self.ports:
            raise NotFound(f"the switch has no port {port}")

    def set_port_rate(self, port: int, bits_per_second: int, slack: int = 0) -> None:
        """Set a port's rate in b/s, 0 = no limit; `slack` (ns) lets a late caller make up lost link time (switch.h)."""
        self._check_port(port)
        if bits_per_second < 0 or slack < 0:
            raise InvalidArgument("rate and slack cannot be negative")
        if bits_per_second >= 1 << 63:
            raise InvalidArgument("a rate is below 2**63 b/s")
        self._native.library.sw_ctl_port_rate(self.handle, port, bits_per_second, slack)
        self._rates[port] = bits_per_second

    def port_rate(self, port: int) -> int:
        """Rate of a port in b/s, 0 = no limit."""
        self._check_port(port)
        return self._rates.get(port, 0)

    def set_port_delay(self, port: int, delay: PortDelay, now: int) -> None:
        """Set how long a port's wires are (engine/wire/long_wire.c); what is on them is there within the new times."""
        self._check_port(port)
        if not all(0 <= time <= LONGEST_DELAY_NS for time in (delay.arriving, delay.leaving)):
            raise InvalidArgument(f"a delay is 0 to {LONGEST_DELAY_NS // 10**9} s")
        self._native.library.sw_dev_set_port_delay(self.handle, port, delay.arriving, delay.leaving, now)
        self._delays[port] = delay

    def port_delay(self, port: int) -> PortDelay:
        """How long the wires of a port are."""
        self._check_port(port)
        return self._delays.get(port, PortDelay())

    def set_queue_limits(
        self, port: int, queue: int | None = None, *, max_packets: int = 0, max_bytes: int = 0
    ) -> None:
        """Limits of one queue of a port, or of all of them; 0 = none."""
        self._check_port(port)
        if queue is not None and not 0 <= queue < self.queues.queues:
            raise InvalidArgument(f"queues are 0..{self.queues.queues - 1}, not {queue}")
        if not 0 <= max_packets < 1 << 32 or not 0 <= max_bytes < 1 << 32:
            raise InvalidArgument("limits are 0 to 2**32 - 1 packets or bytes")
        for number in range(self.queues.queues) if queue is None else (queue,):
            self._native.library.sw_ctl_queue_limits(self.handle, port, number, max_packets, max_bytes)

    def queue_stats(self, port: int, *, reset_peaks: bool = False) -> list[QueueStats]:
        """The queues of a port, by priority; `reset_peaks` resets the peaks to the current depth."""
        self._check_port(port)
        queues = []
        for number in range(self.queues.queues):
            raw = SwQueueStats()
            self._native.library.sw_ctl_queue_stats(self.handle, port, number, int(reset_peaks), c.byref(raw))
            queues.append(QueueStats(**values_of(raw)))
        return queues

    def set_pause(self, port: int, config: PauseConfig | None) -> None:
        """Set priority flow control of a port; None turns it off (the default). Raises InvalidArgument, NotFound."""
        self._check_port(port)
        if config is None:
            self._native.library.sw_ctl_pause(self.handle, port, None)
            return
        if not 0 < config.xon <= config.xoff or config.headroom < 0 or config.xoff + config.headroom >= 1 << 32:
            raise InvalidArgument("flow control needs 0 < xon <= xoff and a headroom, in bytes, below 4 GiB together")
        if config.rate_bps < 1 or not 1 <= config.quanta <= 65535:
            raise InvalidArgument("flow control needs the port's rate in b/s, and 1 to 65535 quanta")
        if not config.priorities or not config.priorities <= set(range(self.queues.queues)):
            raise InvalidArgument(f"flow control needs one or more of the priorities 0..{self.queues.queues - 1}")
        mask = sum(1 << priority for priority in config.priorities)
        sizes = config.xoff, config.xon, config.headroom
        native = SwPauseConfig(mask, *sizes, config.quanta, config.rate_bps)
        self._native.library.sw_ctl_pause(self.handle, port, c.byref(native))

    def set_epoch(self, epoch: int) -> None:
        """Set the zero (ns) of the program's timestamps."""
        self._native.library.sw_ctl_epoch(self.handle, epoch)

    def set_event(self, fd: int) -> None:
        """Set the eventfd to write when a verb called here makes a port ready (for a driver in C); -1 = none."""
        self._native.library.sw_dev_set_event(self.handle, fd)

    def set_port_event(self, port: int, fd: int) -> None:
        """Set the eventfd to write when a port becomes ready for any reason; -1 = none."""
        self._check_port(port)
        self._native.library.sw_ctl_port_event(self.handle, port, fd)

    def set_digest_event(self, fd: int) -> None:
        """Set the eventfd to write when a digest is queued; -1 = none."""
        self._native.library.sw_ctl_digest_event(self.handle, fd)

    def set_logging(self, *, messages: bool = True, trace: bool = False, event: int = -1) -> None:
        """Choose the records of take_log(): log_msg() and failed assertions, and a trace of every packet.

        `event` is the eventfd to write when a record is added. Tracing is slow; use it on demand.
        """
        self._native.library.sw_ctl_logging(self.handle, int(messages), int(trace), event)

    # --- output ---

    def digests_lost(self) -> int:
        """Digests lost because 4096 were queued."""
        return int(self._native.library.sw_ctl_records_lost(self.handle, 0))

    def take_log(self, limit: int | None = None) -> list[LogRecord]:
        """At most `limit` records since the last call, oldest first; the switch keeps 16384 and counts those lost."""
        when, text = c.c_int64(), c.create_string_buffer(1024)
        records: list[LogRecord] = []
        while len(records) != limit:
            if self._native.library.sw_ctl_log_record(self.handle, c.byref(when), text, len(text)) < 0:
                break
            records.append(LogRecord(when.value, text.value.decode(errors="replace")))
        return records

    def log_lost(self) -> int:
        """Records lost because 16384 were queued."""
        return int(self._native.library.sw_ctl_records_lost(self.handle, 1))

    def sample_ports(self, now: int, *, keep_peaks: bool = False) -> dict[int, PortSample]:
        """A sample of every port at `now`, from which the next one's peaks count, unless it is to `keep_peaks`."""
        self._native.library.sw_ctl_sample_ports(self.handle, now, int(keep_peaks), self._samples)
        return {
            port: PortSample(one.bytes, one.peak_bytes, one.byte_ns, one.silenced_ns, one.silenced_times)
            for port, one in zip(self.ports, self._samples, strict=True)
        }

    def stats(self) -> SwitchStats:
        """Counters: drops by reason (names as in engine/switch.h), and those of each port."""
        drops = (c.c_uint64 * len(DROP_REASONS))()
        self._native.library.sw_ctl_stats(self.handle, drops)
        ports: dict[int, PortStats] = {}
        for port in self.ports:
            raw = SwPortStats()
            self._native.library.sw_ctl_port_stats(self.handle, port, c.byref(raw))
            ports[port] = PortStats(**values_of(raw) | {"up": bool(raw.up)})
        return SwitchStats(dict(zip(DROP_REASONS, drops, strict=True)), ports)
