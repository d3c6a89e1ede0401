"""A trace of the PyTorch profiler beside the trace of a NIC: by the time of day, nested, streamed, damaged."""

import gzip
import json

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.reports.perfetto import profiler
from mrc_lab.reports.perfetto.convert import convert
from tests.mrc_lab.reports.perfetto.decoded import Decoded

EPOCH = 1_790_000_000_000_000_000  # ns since 1970, at 1,000,000 ns of the NIC's clock
CLOCK = {"t": 1_000_000, "event": "clock", "host": "h7", "realtime": EPOCH}
NAMES = [
    {"ph": "M", "name": "process_name", "pid": 41, "tid": 0, "ts": 0, "args": {"name": "python"}},
    {"ph": "M", "name": "thread_name", "pid": 41, "tid": 42, "ts": 0, "args": {"name": "main"}},
]


def profile(events, base=EPOCH):
    head = {"schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": base}
    return json.dumps({**head, "traceEvents": events, "traceName": "x"}, indent=1)


def slice_of(name, begin_us, duration_us, thread=42):
    return {"ph": "X", "name": name, "pid": 41, "tid": thread, "ts": begin_us, "dur": duration_us}


@pytest.fixture
def nic(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(CLOCK) + "\n")
    return path


def converted(nic, text, name="rank0.json"):
    path = nic.with_name(name)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    convert([nic], nic.with_name("out"), [path])
    return Decoded(nic.with_name("out"))


@pytest.mark.parametrize("name", ["rank0.json", "rank0.json.gz"])
@pytest.mark.parametrize("piece", [7, 1 << 16])
def test_slices_are_put_on_the_clock_of_the_network(nic, name, piece, monkeypatch):
    monkeypatch.setattr(profiler, "_PIECE", piece)
    events = [slice_of("inner", 12.5, 2), slice_of("step", 10, 10), *NAMES, slice_of("same end", 15, 5)]
    found = converted(nic, profile(events), name)
    # 10 us after the base is 10 us after the moment that the NIC calls 1,000,000 ns
    assert found.slices(f"profiler: {name}", "python", "main") == [
        (1_010_000, 1_020_000, "step"),
        (1_012_500, 1_014_500, "inner"),
        (1_015_000, 1_020_000, "same end"),
    ]
    assert found.clocks == [{6: 1_000_000, 1: EPOCH}]
    assert ("h7",) in found.tracks or not found.events.get(("h7",))


def test_slices_that_overlap_without_nesting_get_tracks_of_their_own(nic):
    found = converted(nic, profile([slice_of("a", 0, 10), slice_of("b", 5, 10), slice_of("c", 12, 3), *NAMES]))
    assert found.slices("profiler: rank0.json", "python", "main") == [
        (1_000_000, 1_010_000, "a"),
        (1_012_000, 1_015_000, "c"),
    ]
    assert found.slices("profiler: rank0.json", "python", "main (2)") == [(1_005_000, 1_015_000, "b")]


def test_without_a_base_times_count_from_1970(nic):
    text = json.dumps({"traceEvents": [slice_of("old", EPOCH / 1000, 4)]})
    (found,) = converted(nic, text).slices("profiler: rank0.json", "process 41", "thread 42")
    assert abs(found[0] - 1_000_000) < 1_000, "a double has a quarter of a microsecond there"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "line 1: it has no list traceEvents"),
        ("{}", "line 1: it has no list traceEvents"),
        ('{"traceEvents": [\n{"ph": "X", "name": "a"', "line 2: not an event in JSON"),
        ('{"traceEvents": [\n\n{"ph": "X", "name": "a"}]}', "line 3: not an event of Chrome's format"),
        ('{"traceEvents": [\n3]}', "line 2: not an event of Chrome's format"),
        ('{"traceEvents": [\n' + json.dumps(slice_of("a", 1, -5)) + "]}", "line 2: not an event of Chrome's format"),
        ('{"traceEvents": [\n' + json.dumps(slice_of("a", float("nan"), 5)) + "]}", "line 2: not an event"),
        ('{"traceEvents": [\n' + json.dumps(slice_of("a", 1e300, 5)) + "]}", "line 2: not an event"),
        ('{"traceEvents": [' + json.dumps(slice_of("a", 1, 5)) + "]}", "line 1: not an event"),  # long before the trace
    ],
)  # fmt: skip
def test_a_damaged_profile_is_named_with_its_line(nic, text, reason):
    with pytest.raises(ExperimentError) as caught:
        converted(nic, text)
    assert f"rank0.json, {reason}" in str(caught.value)
    assert not nic.with_name("out").exists()


def test_a_damaged_archive_is_refused(nic):
    nic.with_name("rank0.json.gz").write_bytes(gzip.compress(profile(NAMES).encode())[:-20])
    with pytest.raises(ExperimentError, match=r"rank0\.json\.gz cannot be read"):
        convert([nic], nic.with_name("out"), [nic.with_name("rank0.json.gz")])


def test_beside_a_trace_of_virtual_time_a_profile_is_refused(tmp_path):
    (tmp_path / "h1.jsonl").write_text('{"t": 5, "event": "drop", "port": 0, "reason": "x", "frame": 9}\n')
    (tmp_path / "p.json").write_text(profile([]))
    with pytest.raises(ExperimentError, match="time of day") as caught:
        convert([tmp_path / "h1.jsonl"], tmp_path / "out", [tmp_path / "p.json"])
    assert "tab of its own" in caught.value.hint
