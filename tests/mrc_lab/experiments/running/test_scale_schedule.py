"""Schedules on the scale backend, beside the same with packets."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_lab.errors import FileError
from mrc_lab.experiments.files import load_file
from mrc_lab.experiments.files.scale_checks import check_scale
from mrc_lab.experiments.running.recording import Recording, TaskRecord
from mrc_lab.experiments.running.run_experiment import run_experiment
from tests.mrc_lab.workloads.schedules import chakra_traces as traces

CHAIN = """num_ranks 4
rank 0 {
a: calc 50000
b: send 1000000b to 1 tag 3
c: send 3000000b to 2 tag 3
b requires a
c requires a
}
rank 1 {
r: recv 1000000b from 0 tag 3
c: calc 20000
c requires r
s: send 500000b to 3 tag 1
s requires c
own: send 8b to 1 tag 9
got: recv 8b from 1 tag 9
}
rank 2 {
r: recv 3000000b from 0 tag 3
s: send 2000000b to 3 tag 2
s requires r
}
rank 3 {
r: recv 500000b from 1 tag 1
t: recv 2000000b from 2 tag 2
c: calc 1000
c requires r
c requires t
}
"""
MANY = (
    "num_ranks 2\nrank 0 {\n"
    + "".join(f"s{number}: send 20000b to 1 tag {number}\n" for number in range(40))
    + "}\nrank 1 {\n"
    + "".join(f"r{number}: recv 20000b from 0 tag {number}\n" for number in range(40))
    + "}\n"
)


def experiment(folder: Path, goal: str, workload: str = "", more: str = "") -> Path:
    (folder / "some.goal").write_text(goal)
    file = folder / "some.yaml"
    file.write_text(
        "fabric: {planes: 2, t0: 2, t1: 2, hosts: 8, rate: 100G}\nduration: 20ms\nmeasure: {links: no}\n"
        f"workload: {{kind: goal, file: some.goal{workload}}}\n{more}"
    )
    return file


def both(file: Path) -> tuple[Recording, Recording]:
    found = [run_experiment(load_file(file), backend, 1)["only"] for backend in ("sim", "scale")]
    return found[0], found[1]


def took(recording: Recording) -> int:
    (operation,) = recording.operations
    return operation.ended - operation.began


@pytest.mark.parametrize(
    ("goal", "workload"),
    [
        (CHAIN, ", hosts: [h1, h2, h5, h6]"),
        (CHAIN, ", hosts: [h1, h5, h2, h6], start: 100us"),
        (MANY, ", hosts: [h1, h5], outstanding: 1"),
        (MANY, ", hosts: [h1, h5], outstanding: 8"),
    ],
)
def test_a_schedule_takes_as_long_as_with_packets(tmp_path: Path, goal: str, workload: str) -> None:
    packets, ours = both(experiment(tmp_path, goal, workload))
    assert ours.errors == packets.errors == ()
    assert took(ours) == pytest.approx(took(packets), rel=0.02)
    assert [(flow.source, flow.destination) for flow in ours.flows] == [
        (flow.source, flow.destination) for flow in packets.flows
    ]
    for one, other in zip(ours.tasks, packets.tasks, strict=True):
        assert (one.operation.label, one.host) == (other.operation.label, other.host)
        assert time(one) == pytest.approx(time(other), rel=0.02, abs=1000), one


def time(task: TaskRecord) -> int:
    assert task.ended is not None
    return task.ended


def test_a_trace_goes_around_rings(tmp_path: Path) -> None:
    ranks = [
        [
            traces.node(1, traces.COMPUTE, "forward", us=10 * (rank + 1)),
            traces.node(2, traces.COLLECTIVE, "sum", after=(1,), comm_type=traces.ALL_REDUCE, comm_size=4_000_000),
        ]
        for rank in range(4)
    ]
    traces.write(tmp_path, *ranks)
    file = experiment(tmp_path, CHAIN)
    chakra = "kind: chakra, file: trace.0.et, hosts: ['h[1-2]', 'h[5-6]']"
    file.write_text(file.read_text().replace("kind: goal, file: some.goal", chakra))
    packets, ours = both(file)
    assert took(ours) == pytest.approx(took(packets), rel=0.02)


def test_what_is_not_done_or_never_can_be_is_an_error(tmp_path: Path) -> None:
    file = experiment(tmp_path, CHAIN, ", hosts: [h1, h2, h5, h6]")
    file.write_text(file.read_text().replace("20ms", "100us"))
    _, ours = both(file)
    assert ours.errors[0].startswith("only 3 of 13 operations were done when the time was over: there waited")
    wild = "num_ranks 2\nrank 0 {\ns: send 10b to 1 tag 1\n}\nrank 1 {\nr: recv 10b from -1 tag 2\n}\n"
    _, ours = both(experiment(tmp_path, wild))
    assert ours.errors[0].startswith("a deadlock: nothing is under way, but there wait")


def test_schedules_over_rc_are_refused(tmp_path: Path) -> None:
    file = experiment(tmp_path, CHAIN, more="transport: {type: rc}\nbackend: scale\n")
    with pytest.raises(FileError, match="schedules over mrc only"):
        check_scale(load_file(file))
