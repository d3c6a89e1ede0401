"""Write a Perfetto trace: a tree of tracks, and on them slices, instants and counters, streamed to a file.

The format is Perfetto's published protobuf, one TracePacket after the other. A track is described once, before its
first event, and referred to by a 64-bit number that is derived from its name and its parent's, so the same input gives
the same bytes. Viewers sort packets by time: they may be written in any order, but slices of one track must nest.
Memory is bounded by the number of tracks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import IO, Final

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from mrc_lab.errors import ExperimentError

MAX_TRACKS: Final = 1 << 18
_SEQUENCE: Final = 1
_MAX_TIME: Final = (1 << 63) - 1
_TEXT_LIMIT: Final = 200  # characters of a name or value that come from the input

Value = int | float | str | bool


class TrackWriter:
    """Writes packets to `stream`, which the caller closes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._builder = StreamingTraceProtoBuilder(stream)
        self._tracks: set[int] = set()

    def track(self, name: str, parent: int = 0, *, rank: int = 0, unit: str = "") -> int:
        """The number of a track below `parent`, of counters if it has a `unit`. `rank` orders it among its siblings."""
        digest = hashlib.blake2b(f"{parent}/{unit}/{name}".encode("utf-8", "replace"), digest_size=8).digest()
        number = int.from_bytes(digest, "big") or 1
        if number not in self._tracks:
            if len(self._tracks) >= MAX_TRACKS:
                raise ExperimentError(f"this makes more than {MAX_TRACKS:,} tracks", "Convert fewer hosts at once.")
            self._tracks.add(number)
            self._describe(number, name, parent, rank, unit)
        return number

    def _describe(self, number: int, name: str, parent: int, rank: int, unit: str) -> None:
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        track = packet.track_descriptor
        track.uuid, track.name = number, name[:_TEXT_LIMIT]
        track.sibling_order_rank = rank
        track.child_ordering = pb.TrackDescriptor.EXPLICIT
        track.sibling_merge_behavior = pb.TrackDescriptor.SIBLING_MERGE_BEHAVIOR_NONE
        if parent:
            track.parent_uuid = parent
        if unit:
            track.counter.unit_name = unit
        self._builder.write_packet(packet)

    def clocks(self, time: int, realtime: int) -> None:
        """The trace's time `time` is `realtime` ns since 1970."""
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        for number, timestamp in ((pb.BUILTIN_CLOCK_BOOTTIME, time), (pb.BUILTIN_CLOCK_REALTIME, realtime)):
            packet.clock_snapshot.clocks.add(clock_id=number, timestamp=timestamp)
        self._builder.write_packet(packet)

    # ---- events -------------------------------------------------------------------------------------------------

    def begin(self, track: int, time: int, name: str, values: Mapping[str, Value] | None = None) -> None:
        """A slice begins."""
        self._event(pb.TrackEvent.TYPE_SLICE_BEGIN, track, time, name, values or {}, (), ())

    def end(self, track: int, time: int) -> None:
        """The innermost slice ends."""
        self._event(pb.TrackEvent.TYPE_SLICE_END, track, time, "", {}, (), ())

    def slice(self, track: int, begin: int, end: int, name: str, values: Mapping[str, Value] | None = None) -> None:
        """A slice that is known as a whole."""
        self.begin(track, begin, name, values)
        self.end(track, end)

    def instant(
        self,
        track: int,
        time: int,
        name: str,
        values: Mapping[str, Value] | None = None,
        *,
        flows: tuple[int, ...] = (),
        ends: tuple[int, ...] = (),
    ) -> None:
        """Something without duration. Arrows lead from it along `flows`, and those of `ends` end here."""
        self._event(pb.TrackEvent.TYPE_INSTANT, track, time, name, values or {}, flows, ends)

    def counter(self, track: int, time: int, value: float) -> None:
        """From `time` on the counter has this value."""
        packet = self._packet(time)
        packet.track_event.type = pb.TrackEvent.TYPE_COUNTER
        packet.track_event.track_uuid = track
        packet.track_event.double_counter_value = value
        self._builder.write_packet(packet)

    def _packet(self, time: int) -> pb.TracePacket:
        if not 0 <= time <= _MAX_TIME:
            raise ValueError("its time is out of range")
        packet = self._builder.create_packet()
        packet.timestamp = time
        packet.trusted_packet_sequence_id = _SEQUENCE
        return packet

    def _event(
        self,
        kind: pb.TrackEvent.Type.ValueType,
        track: int,
        time: int,
        name: str,
        values: Mapping[str, Value],
        flows: tuple[int, ...],
        ends: tuple[int, ...],
    ) -> None:
        packet = self._packet(time)
        event = packet.track_event
        event.type = kind
        event.track_uuid = track
        if name:
            event.name = name[:_TEXT_LIMIT]
        for key, value in values.items():
            _annotate(event.debug_annotations.add(), key, value)
        event.flow_ids.extend(flows)
        event.terminating_flow_ids.extend(ends)
        self._builder.write_packet(packet)


def _annotate(annotation: pb.DebugAnnotation, key: str, value: Value) -> None:
    annotation.name = key[:_TEXT_LIMIT]
    if isinstance(value, bool):
        annotation.bool_value = value
    elif isinstance(value, int):
        annotation.int_value = value
    elif isinstance(value, float):
        annotation.double_value = value
    else:
        annotation.string_value = str(value)[:_TEXT_LIMIT]
