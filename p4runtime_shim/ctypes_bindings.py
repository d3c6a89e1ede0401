"""ctypes bindings of the engine: its C functions and structs.

The device verbs use `PyDLL`: they take well under a microsecond, less than releasing the GIL would cost, and no thread
waits for the GIL while it holds the switch's mutex. All other functions use `CDLL`, which releases the GIL.
"""

from __future__ import annotations

import _ctypes
import ctypes as c
import functools
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

from p4runtime_shim.build import BuildOptions, build_engine

Signatures: TypeAlias = Mapping[str, tuple[Any, tuple[Any, ...]]]
"""Result and arguments of functions, as ctypes types, by name."""

NEVER = (1 << 63) - 1
NEVER_HIT = -(1 << 63)  # SW_NEVER_HIT
NO_MEMORY = -1  # SW_NO_MEMORY
DROP_REASONS = (
    "ingress",
    "egress",
    "queue_full",
    "no_buffer",
    "no_port",
    "port_down",
    "no_pipeline",
    "frame_size",
    "no_headroom",
    "bad_priority",
    "no_group",
    "no_session",
    "loop_limit",
    "assertion",
)


class SwConfig(c.Structure):
    """struct sw_config."""

    _fields_ = (
        ("device_id", c.c_uint32),
        ("queues", c.c_uint32),
        ("queue_packets", c.c_uint32),
        ("queue_bytes", c.c_uint32),
        ("buffer_packets", c.c_uint32),
        ("max_frame", c.c_uint32),
        ("seed", c.c_uint64),
        ("ports", c.POINTER(c.c_uint16)),
        ("port_count", c.c_uint32),
    )


class SwPortStats(c.Structure):
    """struct sw_port_stats."""

    _fields_ = (
        ("rx_packets", c.c_uint64),
        ("rx_bytes", c.c_uint64),
        ("tx_packets", c.c_uint64),
        ("tx_bytes", c.c_uint64),
        ("queue_drops", c.c_uint64),
        ("down_drops", c.c_uint64),
        ("headroom_drops", c.c_uint64),
        ("pauses_sent", c.c_uint64),
        ("pauses_received", c.c_uint64),
        ("queued_packets", c.c_uint32),
        ("queued_bytes", c.c_uint32),
        ("up", c.c_int32),
    )


class SwPortSample(c.Structure):
    """struct sw_port_sample."""

    _fields_ = (
        ("bytes", c.c_uint64),
        ("peak_bytes", c.c_uint64),
        ("byte_ns", c.c_uint64),
        ("silenced_ns", c.c_uint64),
        ("silenced_times", c.c_uint64),
    )


class SwPauseConfig(c.Structure):
    """struct sw_pause_config."""

    _fields_ = (
        ("priorities", c.c_uint32),
        ("xoff", c.c_uint32),
        ("xon", c.c_uint32),
        ("headroom", c.c_uint32),
        ("quanta", c.c_uint32),
        ("rate", c.c_uint64),
    )


class SwQueueStats(c.Structure):
    """struct sw_queue_stats."""

    _fields_ = (
        ("drops", c.c_uint64),
        ("packets", c.c_uint32),
        ("bytes", c.c_uint32),
        ("max_packets", c.c_uint32),
        ("max_bytes", c.c_uint32),
        ("peak_packets", c.c_uint32),
        ("peak_bytes", c.c_uint32),
    )


class SwCaptureStats(c.Structure):
    """struct sw_capture_stats."""

    _fields_ = (("frames", c.c_uint64), ("lost", c.c_uint64), ("waiting", c.c_uint64), ("error", c.c_int32))


class SwTarget(c.Structure):
    """struct sw_target."""

    _fields_ = (
        ("action", c.c_uint32),
        ("arg_words", c.c_uint32),
        ("args", c.c_char_p),
        ("member", c.c_void_p),
        ("group", c.c_void_p),
    )


class SwReplica(c.Structure):
    """struct sw_replica."""

    _fields_ = (("port", c.c_uint16), ("instance", c.c_uint16), ("backups", c.c_uint16))


def values_of(structure: c.Structure) -> dict[str, Any]:
    """The fields of a structure by name."""
    return {name: getattr(structure, name) for name, *_ in structure._fields_}


_P, _U, _U32, _I32, _I64, _U64, _S = (
    c.c_void_p,
    c.c_uint,
    c.c_uint32,
    c.c_int32,
    c.c_int64,
    c.c_uint64,
    c.c_char_p,
)
_SIGNATURES: Signatures = {
    "sw_create": (_P, (c.POINTER(SwConfig),)),
    "sw_destroy": (None, (_P,)),
    "sw_load": (c.c_int, (_P, _P, c.POINTER(_S), _U32)),
    "sw_adopt": (None, (_P, _P)),
    "sw_dev_port_changed": (None, (_P, _U, c.c_int, _I64)),
    "sw_dev_set_port_delay": (c.c_int, (_P, _U, _I64, _I64, _I64)),
    "sw_dev_take_ready": (c.c_size_t, (_P, c.POINTER(c.c_uint16), c.c_size_t)),
    "sw_ctl_insert": (_P, (_P, _U32, _S, _S, _S, _I32, c.POINTER(SwTarget))),
    "sw_ctl_members": (c.c_int, (_P, _U32, _U32, _S)),
    "sw_ctl_modify": (c.c_int, (_P, _P, c.POINTER(SwTarget))),
    "sw_ctl_delete": (None, (_P, _U32, _P)),
    "sw_ctl_default": (c.c_int, (_P, _U32, _U32, _U32, _S)),
    "sw_ctl_entry_counter": (None, (_P, _P, c.c_int, c.POINTER(_U64))),
    "sw_ctl_entry_hits": (None, (_P, c.POINTER(_P), _U32, c.POINTER(_I64))),
    "sw_ctl_entry_meter": (None, (_P, _P, c.POINTER(c.c_double))),
    "sw_ctl_entry_colors": (None, (_P, _P, c.c_int, c.POINTER(_U64))),
    "sw_ctl_member_add": (_P, (_P, _U32, _U32, _U32, _S)),
    "sw_ctl_member_modify": (c.c_int, (_P, _P, _U32, _U32, _S)),
    "sw_ctl_member_delete": (None, (_P, _P)),
    "sw_ctl_group_add": (_P, (_P, _U32, _U32, c.POINTER(_P), c.POINTER(c.c_uint16))),
    "sw_ctl_group_modify": (c.c_int, (_P, _P, _U32, c.POINTER(_P), c.POINTER(c.c_uint16))),
    "sw_ctl_group_delete": (None, (_P, _P)),
    "sw_ctl_counters": (None, (_P, _U32, _U32, _U32, c.c_int, c.POINTER(_U64))),
    "sw_ctl_registers": (None, (_P, _U32, _U32, _U32, c.c_int, _P)),
    "sw_ctl_colors": (None, (_P, _U32, _U32, _U32, c.c_int, c.POINTER(_U64))),
    "sw_ctl_meters": (None, (_P, _U32, _U32, _U32, c.POINTER(c.c_double))),
    "sw_ctl_replicas": (c.c_int, (_P, c.c_int, _U32, _U32, c.POINTER(SwReplica), _U32)),
    "sw_ctl_replicas_delete": (c.c_int, (_P, c.c_int, _U32)),
    "sw_ctl_queue_stats": (None, (_P, _U, _U, c.c_int, c.POINTER(SwQueueStats))),
    "sw_capture_start": (_P, (_P, c.c_size_t, _I64, c.c_int)),
    "sw_capture_file": (c.c_int, (_P, _U, c.c_int, c.c_int)),
    "sw_capture_write": (c.c_int, (_P,)),
    "sw_capture_stats": (None, (_P, c.POINTER(SwCaptureStats))),
    "sw_capture_stop": (None, (_P,)),
    "sw_capture_free": (None, (_P,)),
    "sw_ctl_queue_limits": (None, (_P, _U, _U, _U32, _U32)),
    "sw_ctl_digest": (c.c_int, (_P, c.POINTER(_U32), c.POINTER(_I64), c.POINTER(_U64), _U32)),
    "sw_ctl_logging": (None, (_P, c.c_int, c.c_int, c.c_int)),
    "sw_ctl_log_record": (c.c_int, (_P, c.POINTER(_I64), _S, _U32)),
    "sw_ctl_records_lost": (_U64, (_P, c.c_int)),
    "sw_ctl_stats": (None, (_P, c.POINTER(_U64))),
    "sw_ctl_port_stats": (c.c_int, (_P, _U, c.POINTER(SwPortStats))),
    "sw_ctl_port_rate": (c.c_int, (_P, _U, _U64, _I64)),
    "sw_ctl_sample_ports": (None, (_P, c.c_int64, c.c_int, c.POINTER(SwPortSample))),
    "sw_ctl_pause": (c.c_int, (_P, _U, c.POINTER(SwPauseConfig))),
    "sw_dev_set_event": (None, (_P, c.c_int)),
    "sw_ctl_port_event": (None, (_P, _U, c.c_int)),
    "sw_ctl_digest_event": (None, (_P, c.c_int)),
    "sw_exit_within": (c.c_int, (_U32,)),
    "sw_lock": (None, (_P,)),
    "sw_unlock": (None, (_P,)),
    "sw_ctl_epoch": (None, (_P, _I64)),
}
_HOT: Signatures = {
    "sw_dev_receive": (None, (_P, _U, _S, c.c_size_t, _I64)),
    "sw_set_timing": (None, (_P, c.c_int)),
    "sw_transmit_due": (_I64, (_P, _U)),
    "sw_port_idle_ns": (_U64, (_P, _U)),
    "sw_dev_transmit": (c.c_size_t, (_P, _U, _I64, _P, c.c_size_t)),
    "sw_dev_receive_frame": (c.c_size_t, (_P, _U, _P, _I64, c.POINTER(c.c_uint16), c.c_size_t)),
    "sw_dev_transmit_frame": (c.c_size_t, (_P, _U, _I64, c.c_size_t, _P, _P)),
    "sw_dev_set_owners": (None, (_P, _P, _P)),
    "sw_prefetch": (None, (_P, _U, c.c_int, c.c_int)),
    "sw_dev_next_wakeup": (_I64, (_P,)),
    "sw_dev_tick": (None, (_P, _I64)),
}


class Engine:
    """A loaded engine: the functions of `library` release the GIL, those of `hot`, the device verbs, keep it.

    Neither has a function whose types are not declared here: ctypes would cut its pointers to 32 bits.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = declared(c.CDLL(str(path)), _SIGNATURES)
        self.hot = declared(c.PyDLL(str(path)), _HOT)


def declared(library: c.CDLL, signatures: Signatures) -> SimpleNamespace:
    """The functions of a library that have these types, as attributes."""
    functions = SimpleNamespace()
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
        setattr(functions, name, function)
    return functions


class ProgramLibrary:
    """A program's shared object; it stays loaded as long as this object exists. Raises OSError."""

    def __init__(self, path: Path) -> None:
        library = c.CDLL(str(path))
        self.address = c.addressof(c.c_char.in_dll(library, "sw_program"))  # of the `sw_program`
        release = weakref.finalize(self, _ctypes.dlclose, library._handle)
        release.atexit = False  # driver threads may still be running in it


def load_engine(*, cache: Path | None = None, options: BuildOptions | None = None) -> Engine:
    """The engine, built if necessary; one object per library file."""
    return _native(build_engine(cache=cache, options=options))


@functools.cache
def _native(path: Path) -> Engine:
    return Engine(path)
