"""A Perfetto trace decoded by the published schema, for tests: tracks by their path of names, events by track."""

from collections import defaultdict

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

BEGIN, END = pb.TrackEvent.TYPE_SLICE_BEGIN, pb.TrackEvent.TYPE_SLICE_END
INSTANT, COUNTER = pb.TrackEvent.TYPE_INSTANT, pb.TrackEvent.TYPE_COUNTER


class Decoded:
    def __init__(self, path):
        self.trace = pb.Trace.FromString(path.read_bytes())
        described, events = {}, defaultdict(list)
        self.clocks = []
        for packet in self.trace.packet:
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in described
                described[packet.track_descriptor.uuid] = packet.track_descriptor
            elif packet.HasField("clock_snapshot"):
                self.clocks.append({clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks})
            else:
                assert packet.track_event.track_uuid in described, "described before its first event"
                events[packet.track_event.track_uuid].append((packet.timestamp, packet.track_event))
        self.tracks = {self._path(described, uuid): uuid for uuid in described}
        self.units = {self._path(described, uuid): track.counter.unit_name for uuid, track in described.items()}
        assert len(self.tracks) == len(described), "no two tracks of one name"
        # As viewers sort: by time, and packets of one time as they are in the file.
        self.events = {path: sorted(events[uuid], key=lambda item: item[0]) for path, uuid in self.tracks.items()}

    def _path(self, described, uuid):
        track = described[uuid]
        return (*self._path(described, track.parent_uuid), track.name) if track.parent_uuid else (track.name,)

    def instants(self, *prefix):
        """(time, name, event) of all instants of tracks below `prefix`."""
        return [
            (time, event.name, event)
            for path, events in self.events.items()
            if path[: len(prefix)] == prefix
            for time, event in events
            if event.type == INSTANT
        ]

    def slices(self, *path):
        """(begin, end, name) of the slices of one track, which nest."""
        found, opened = [], []
        for time, event in self.events[path]:
            if event.type == BEGIN:
                opened.append((time, event.name))
            elif event.type == END:
                begin, name = opened.pop()
                found.append((begin, time, name))
        assert not opened, f"{path}: every slice ends"
        return sorted(found)

    def counter(self, *path):
        """(time, value) of a counter."""
        return [(time, event.double_counter_value) for time, event in self.events[path]]


def values(event):
    """Annotations of an event."""
    return {one.name: getattr(one, one.WhichOneof("value")) for one in event.debug_annotations}
