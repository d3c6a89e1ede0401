"""Simulated runs and event traces converted, and what the published schema decodes compared with the input."""

import csv
import itertools
import json
import tracemalloc
from collections import Counter

import pytest

from mrc_lab.cli.main import run
from mrc_lab.errors import ExperimentError
from mrc_lab.reports.perfetto.convert import convert
from tests.mrc_lab.reports.perfetto.decoded import Decoded, values

TRAINING = """\
title: Training while a link is cut
fabric: {planes: 2, t0: 2, t1: 2, hosts: 4, rate: 100G}
workload: {kind: training, steps: 3, gradients: [128K], compute: 20us}
duration: 2ms
measure: {links: no}
faults:
  - {kind: link_down, at: 30us, until: 300us, link: "t0-0:t1-0@p0"}
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "job.yaml").write_text(TRAINING)
    assert run(["run", str(folder / "job.yaml"), "--trace", "--results", str(folder / "r")]) == 0
    assert [path.name for path in (folder / "r").iterdir()] == ["job"], "no temporary folder stays"
    return folder / "r" / "job" / "latest"


@pytest.fixture(scope="module")
def traces(result):
    """Events by host, and when the run began."""
    found = {}
    for path in sorted((result / "only" / "trace").glob("h*.jsonl")):
        found[path.stem] = [json.loads(line) for line in path.read_text().splitlines()]
    begin = json.loads((result / "only" / "trace" / "run.jsonl").read_text())["t"]
    assert len(found) == 4
    return found, begin


@pytest.fixture(scope="module")
def decoded(result, tmp_path_factory):
    output = tmp_path_factory.mktemp("out") / "job.pftrace"
    done = convert([result], output)
    assert done.hosts == ("h1", "h2", "h3", "h4")
    return Decoded(output)


def table(result, name):
    with (result / "only" / name).open() as file:
        return list(csv.DictReader(file))


def test_every_queue_pair_and_every_path_that_was_used_has_a_track(traces, decoded):
    for host, events in traces[0].items():
        peers = {event["qpn"]: event["peer"] for event in events if event["event"] == "qp" and event["peer"]}
        sends = [event for event in events if event["event"] == "send" and event["op"] == "write"]
        assert sends
        for event in sends:
            pair = f"queue pair {event['qpn']:#x} to {peers[event['qpn']]}"
            assert (host, pair, f"plane {event['port']}, path {event['ev']:#x}") in decoded.tracks


def test_every_packet_and_loss_of_the_traces_is_there_at_its_time(traces, decoded):
    lost = 0
    for host, events in traces[0].items():
        expected = Counter()
        for event in events:
            if event["event"] == "send" and event["op"] == "write":
                expected[event["t"], "retransmission" if event["rtx"] else "write", event["psn"]] += 1
            elif event["event"] == "lost":
                expected[event["t"], f"lost: {event['why']}", event["psn"]] += 1
                lost += 1
            elif event["event"] == "receive":
                expected[event["t"], f"receive {event['op']}", event.get("psn")] += 1
        names = {name for _, name, _ in expected}
        found = Counter(
            (time, name, values(event).get("psn")) for time, name, event in decoded.instants(host) if name in names
        )
        assert found == expected
    assert lost, "else the run shows nothing"


def test_arrows_lead_from_each_lost_packet_over_its_loss_to_its_retransmission(traces, decoded):
    chains = set()
    for host, events in traces[0].items():
        lost = {}
        for event in events:
            if event["event"] == "lost":
                lost[event["qpn"], event["psn"]] = (event["sent"], event["t"])
            elif event["event"] == "send" and event["op"] == "write":
                since = lost.pop((event["qpn"], event["psn"]), None)
                if since is not None:
                    assert event["rtx"]
                    chains.add((host, *since, event["t"]))
    drawn = {}
    for host in traces[0]:
        for time, _, event in decoded.instants(host):
            for flow in (*event.flow_ids, *event.terminating_flow_ids):
                drawn.setdefault((host, flow), []).append(time)
    arrows = {(host, *sorted(times)) for (host, _), times in drawn.items() if len(times) == 3}
    assert arrows == chains
    assert chains


def test_steps_of_the_job_are_slices_from_the_beginning_of_the_run(result, traces, decoded):
    begin = traces[1]
    expected = [
        (begin + int(row["began_ns"]), begin + int(row["ended_ns"]), f"step {number}")
        for number, row in enumerate(table(result, "completions.csv"), 1)
    ]
    assert decoded.slices("workload", "collective") == expected
    assert len(expected) == 3


def test_a_fault_is_a_slice(traces, decoded):
    begin = traces[1]
    assert decoded.slices("faults", "fault") == [(begin + 30_000, begin + 300_000, "link down t0-0:t1-0@p0")]


def test_states_of_paths_are_slices(traces, decoded):
    changes = 0
    for host, events in traces[0].items():
        first, last = events[0]["t"], events[-1]["t"]
        changed = {}
        for event in events:
            if event["event"] == "path":
                changed.setdefault((event["qpn"], event["plane"], event["ev"]), []).append(event)
        for (qpn, plane, ev), changes_of_path in changed.items():
            expected = [(first, changes_of_path[0]["t"], changes_of_path[0]["old"])]
            ends = [event["t"] for event in changes_of_path[1:]] + [last]
            expected += [(event["t"], end, event["new"]) for event, end in zip(changes_of_path, ends, strict=True)]
            (path,) = [
                p
                for p in decoded.tracks
                if p[0] == host
                and len(p) == 3
                and p[1].startswith(f"queue pair {qpn:#x} ")
                and p[2] == f"plane {plane}, path {ev:#x}"
            ]
            assert decoded.slices(*path) == sorted(expected)
            changes += len(changes_of_path)
    assert changes


def test_the_counters_of_links_add_up_to_the_bytes_they_carried(result, decoded):
    carried = Counter()
    for row in table(result, "links.csv"):
        carried[row["link"] + (">" if row["direction"] == "up" else "<")] += int(row["bytes"])
    tracks = [path for path in decoded.tracks if path[0] == "links" and path[-1].endswith(" rate")]
    assert {path[-1].removesuffix(" rate") for path in tracks} == set(carried)
    for path in tracks:
        assert decoded.units[path] == "Mbit/s"
        samples = decoded.counter(*path)
        assert samples[-1][1] == 0
        bits = sum((t2 - t1) * rate * 1e-3 for (t1, rate), (t2, _) in itertools.pairwise(samples))
        assert bits / 8 == pytest.approx(carried[path[-1].removesuffix(" rate")])


def test_the_queues_of_switches_are_counters_although_the_file_does_not_measure_them(result, decoded):
    peaks = {}
    for row in table(result, "queues.csv"):
        name = row["link"] + (">" if row["direction"] == "up" else "<")
        if row["peak_bytes"]:
            peaks[name] = max(peaks.get(name, 0), int(row["peak_bytes"]))
    found = {
        path[-1].removesuffix(" peak"): max(value for _, value in decoded.counter(*path))
        for path in decoded.tracks
        if path[0] == "switch queues" and path[-1].endswith(" peak")
    }
    assert found == peaks
    assert max(peaks.values()) > 4_096, "a packet waited"


def test_marks_and_trims_are_counters_of_switch_queues(tmp_path):
    (tmp_path / "signals.csv").write_text(
        "begin_ns,end_ns,link,direction,marked,trimmed\n0,10,h1@p0,down,3,0\n10,30,h1@p0,down,0,7\n"
    )
    (tmp_path / "links.csv").write_text("begin_ns,end_ns,link,direction,bytes,lost\n")
    (tmp_path / "events.csv").write_text("time_ns,event,host,flow,qpn,ev,plane,old,new,reason\n")
    (tmp_path / "completions.csv").write_text("flow,began_ns,ended_ns,bytes,ok\n")
    convert([tmp_path], tmp_path / "out")
    found = Decoded(tmp_path / "out")
    assert found.counter("switch queues", "h1@p0< marked") == [(0, 3), (10, 0)]
    assert found.counter("switch queues", "h1@p0< trimmed") == [(10, 7), (30, 0)]


def test_without_event_traces_the_tables_show_how_paths_changed(result, tmp_path):
    for name in ("completions.csv", "events.csv", "links.csv"):
        (tmp_path / name).write_bytes((result / "only" / name).read_bytes())
    convert([tmp_path], tmp_path / "out")
    found = Decoded(tmp_path / "out")
    changes = [row for row in table(result, "events.csv") if row["event"] == "path"]
    for row in changes:
        pair = f"queue pair {int(row['qpn']):#x} ({row['flow']})"
        path = (row["host"], pair, f"plane {row['plane']}, path {int(row['ev']):#x}")
        assert any(begin == int(row["time_ns"]) and name == row["new"] for begin, _, name in found.slices(*path))
    assert changes


@pytest.mark.second_ring
def test_a_large_trace_is_converted_in_little_memory(tmp_path):
    count = 60_000
    with (tmp_path / "h1.jsonl").open("w") as file:
        for number in range(count):
            event = {"t": number, "event": "send", "port": 0, "op": "write", "kind": "middle", "psn": number & 0xFFFFFF,
                     "msn": 1, "rtx": False, "size": 4096, "qpn": 17, "ev": number % 64}  # fmt: skip
            file.write(json.dumps(event) + "\n")
    output = tmp_path / "out"
    shares = []
    tracemalloc.start()
    try:
        assert convert([tmp_path / "h1.jsonl"], output, progress=shares.append).events == count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert output.stat().st_size > 4_000_000
    assert peak < 1_000_000
    assert len(shares) > 5
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1


GOOD = '{"t": 5, "event": "send", "port": 0, "op": "write", "psn": 1, "size": 9, "qpn": 17, "ev": 3}\n'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("garbage\n", "not a line of JSON"),
        ("[1, 2]\n", "not a line of JSON: it is not an object"),
        ("[" * 100_000 + "\n", "not a line of JSON"),
        ('{"event": "send"}\n', "an event has a time"),
        ('{"t": -1, "event": "send"}\n', "an event has a time"),
        ('{"t": 1e400, "event": "send"}\n', "1e400 is larger than any number"),
        ('{"t": 99999999999999999999, "event": "send"}\n', "an event has a time"),
        ('{"t": 6, "event": "send", "port": 0, "op": "write", "qpn": 17, "ev": 3}\n', "it has no 'psn'"),
        ('{"t": 6, "event": "send", "port": {}, "op": "write", "psn": 1, "qpn": 17, "ev": 4}\n', "not an event"),
        ('{"t": 6, "event": "send", "port": 0, "op": "write", "psn": [], "qpn": 17, "ev": 3}\n', "not an event"),
        ('{"t": 6, "event": "send", "port": 0, "op": "write", "psn": 1, "qpn": 17, "ev": "x"}\n', "not an event"),
        ('{"t": 6, "event": "path", "qpn": 17, "ev": 3, "plane": 0, "old": 3, "new": 4, "reason": 1}\n', "not an"),
        ('{"t": 6, "event": "drop", "port": 99999999999999999999, "reason": "x", "frame": 1}\n', "not an event"),
        (f'{{"t": 6, "event": "drop", "port": 1, "reason": "x", "frame": {10**30}}}\n', "not an event"),
        ("x" * (1 << 21), "not a line of JSON"),
    ],
)  # fmt: skip
def test_a_damaged_line_is_named_and_nothing_is_written(line, reason, tmp_path):
    path = tmp_path / "h1.jsonl"
    path.write_text(GOOD + line)
    output = tmp_path / "out"
    output.write_text("before")
    with pytest.raises(ExperimentError, match="line 2") as caught:
        convert([path], output)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert output.read_text() == "before"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["h1.jsonl", "out"]


def test_the_incomplete_last_line_of_a_growing_trace_is_left_out(tmp_path):
    (tmp_path / "h1.jsonl").write_text(GOOD + GOOD[:30])
    assert convert([tmp_path / "h1.jsonl"], tmp_path / "out").events == 1


@pytest.mark.parametrize("content", [b"", b"\x0a\x20" * 50, b"\xff\xfe\n", b"PNG no line break"])
def test_a_foreign_file_is_refused(content, tmp_path):
    (tmp_path / "h1.jsonl").write_bytes(content)
    with pytest.raises(ExperimentError, match=r"h1\.jsonl"):
        convert([tmp_path / "h1.jsonl"], tmp_path / "out")


def test_nics_that_were_idle_are_left_out(tmp_path):
    (tmp_path / "h1.jsonl").write_text(GOOD)
    (tmp_path / "h2.jsonl").touch()
    converted = convert([tmp_path], tmp_path / "out")
    assert (converted.events, converted.hosts) == (1, ("h1",))


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(ExperimentError, match="nothing to convert"):
        convert([tmp_path], tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "row", "reason"),
    [
        ("links.csv", "0,10,h1@p0,up,many,0", "line 2: not a row of links"),
        ("signals.csv", "0,10,h1@p0,up,many,0", "line 2: not a row of signals"),
        ("links.csv", "10,0,h1@p0,up,1,0", "line 2: not a row of links: it ends before it begins"),
        ("links.csv", "0,10,h1@p0", "line 2: it has not as many values as columns"),
        ("events.csv", "x,path,h1,f,1,1,0,good,skip,ecn", "line 2: not an event"),
        ("completions.csv", "f,5,1,x,1", "line 2: not a completion"),
    ],
)
def test_a_damaged_table_is_named_with_its_line(name, row, reason, tmp_path):
    heads = {
        "links.csv": "begin_ns,end_ns,link,direction,bytes,lost",
        "events.csv": "time_ns,event,host,flow,qpn,ev,plane,old,new,reason",
        "completions.csv": "flow,began_ns,ended_ns,bytes,ok",
        "signals.csv": "begin_ns,end_ns,link,direction,marked,trimmed",
    }
    for each, head in heads.items():
        (tmp_path / each).write_text(f"{head}\n{row}\n" if each == name else f"{head}\n")
    with pytest.raises(ExperimentError) as caught:
        convert([tmp_path], tmp_path / "out")
    assert f"{name}, {reason}" in str(caught.value)


def test_the_input_is_never_overwritten(tmp_path):
    (tmp_path / "h1.jsonl").write_text(GOOD)
    with pytest.raises(ExperimentError, match="not a place"):
        convert([tmp_path / "h1.jsonl"], tmp_path / "h1.jsonl")
    assert (tmp_path / "h1.jsonl").read_text() == GOOD


def test_traces_of_two_hosts_of_one_name_keep_their_own_tracks(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "h1.jsonl").write_text(GOOD)
    assert convert([tmp_path / "a", tmp_path / "b"], tmp_path / "out").hosts == ("h1", "h1 (2)")


def test_tables_are_moved_to_where_the_run_began_by_the_clock_of_the_traces(tmp_path):
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "h1.jsonl").write_text(GOOD)
    (tmp_path / "trace" / "run.jsonl").write_text('{"t": 7000, "event": "run"}\n')
    (tmp_path / "links.csv").write_text("begin_ns,end_ns,link,direction,bytes,lost\n0,10,h1@p0,up,1,0\n")
    (tmp_path / "events.csv").write_text("time_ns,event,host,flow,qpn,ev,plane,old,new,reason\n")
    (tmp_path / "completions.csv").write_text("flow,began_ns,ended_ns,bytes,ok\nh1>h2,1,5,9,1\nh1>h2,2,6,9,0\n")
    convert([tmp_path], tmp_path / "out")
    found = Decoded(tmp_path / "out")
    assert found.slices("workload", "h1>h2") == [(7001, 7005, "write")]
    assert found.slices("workload", "h1>h2 (2)") == [(7002, 7006, "write (failed)")]
    assert found.counter("links", "h1@p0> rate") == [(7000, 800), (7010, 0)]


def test_the_demo_s_steps_have_their_computing_inside(tmp_path):
    (tmp_path / "steps-mrc.csv").write_text(
        "step,rank,begin_s,end_s,compute_s,loss,accuracy,gradient_crc\n"
        "0,0,0.5,0.75,0.125,2.3,0.1,0\n0,1,0.5,0.7,0.1,2.3,0.1,0\n"
    )
    (tmp_path / "events-mrc.jsonl").write_text(
        '{"time_s": 0.0, "kind": "start", "monotonic_ns": 7000000000}\n'
        '{"time_s": 0.6, "kind": "link_down", "link": "h1@p0", "step": 0}\n'
    )
    convert([tmp_path], tmp_path / "out")
    found = Decoded(tmp_path / "out")
    assert found.slices("training over mrc", "rank 0") == [
        (7_500_000_000, 7_625_000_000, "compute"),
        (7_500_000_000, 7_750_000_000, "step 0"),
        (7_625_000_000, 7_750_000_000, "all-reduce"),
    ]
    assert [(time, name) for time, name, _ in found.instants("training over mrc")] == [
        (7_600_000_000, "link_down: h1@p0")
    ]


def test_reroutes_are_instants_of_their_plane(tmp_path):
    (tmp_path / "events.csv").write_text(
        "time_ns,event,host,flow,qpn,ev,plane,old,new,reason\n5,reroute,,,,,1,,,without h1@p1: 2 entries\n"
    )
    (tmp_path / "links.csv").write_text("begin_ns,end_ns,link,direction,bytes,lost\n")
    (tmp_path / "completions.csv").write_text("flow,began_ns,ended_ns,bytes,ok\n")
    convert([tmp_path], tmp_path / "out")
    assert ("faults", "routes of plane 1") in Decoded(tmp_path / "out").tracks
