import subprocess
import sys
from pathlib import Path

import pytest

from mrc_host import compiled
from simulation.trace import Cut, Record, Trace, cut_records, first_difference, read
from tests.simulation.worlds import US, small_world, transfer

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = """
from simulation.trace import Trace
from tests.simulation.worlds import small_world, transfer
trace = Trace()
with small_world(5, trace=trace) as world:
    world.faults.loss("*", 0.01)
    world.faults.flap("t0-0:t1-0@p0", 5_000, 9_000, random=True, until=100_000)
    assert world.run(transfer(world)).equal
    world.run()
print(trace.cut().hash)
"""

SWARM = """
from mrc_host.transport import qp
from tests.swarm.run import run
from tests.swarm.generate_scenario import generate
print(qp.__file__, *(run(generate(seed)).trace for seed in (1, 2, 3, 5, 8)))
"""


def traced(seed, keep=True, fault=None, length=100_000):
    trace = Trace(keep)
    with small_world(seed, trace=trace) as world:
        if fault is not None:
            fault(world.faults)
        assert world.run(transfer(world, length=length)).equal
        world.run()
    return trace


def test_the_hash_repeats_with_the_seed_and_differs_for_another():
    assert traced(1, False).cut() == traced(1, False).cut()
    assert traced(1, False).cut().hash != traced(2, False).cut().hash


def test_the_hash_does_not_depend_on_the_process():
    def run(hash_seed):
        command = [sys.executable, "-c", SCRIPT]
        environment = {"PYTHONHASHSEED": str(hash_seed), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout

    first = run(0)
    assert len(first.strip()) == 32
    assert run(12345) == first


def test_the_hash_does_not_depend_on_whether_the_transport_is_compiled():
    """Random fabrics, MRC and RC, NSCC and fixed windows, faults: whatever the swarm draws."""
    if not compiled.available():
        pytest.skip("changed since it was compiled: run `.venv/bin/python -m scripts.compile_transport`")

    def run(first):
        command = [sys.executable, "-c", f"from mrc_host import compiled\n{first}\n{SWARM}"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()

    mapped, *hashes = run("assert compiled.use()")
    assert mapped.endswith(".so")
    plain, *others = run("pass")
    assert plain.endswith(".py")
    assert hashes == others
    assert len(set(hashes)) == 5


def test_recording_does_not_change_the_hash(tmp_path):
    assert traced(1, False).cut() == traced(1, True).cut() == traced(1, tmp_path / "trace").cut()


def test_the_first_difference_of_two_runs_is_found():
    left, right = traced(1), traced(1, fault=lambda faults: faults.link_down("t0-0:t1-1@p1", at=8 * US))
    found = first_difference(left.records(), right.records())
    assert found is not None
    assert min(found.left.time, found.right.time) >= 8 * US
    same = list(left.records())[: found.position]
    assert same == list(right.records())[: found.position]
    assert first_difference(left.records(), traced(1).records()) is None


def test_a_shorter_trace_differs_at_its_end():
    record = Record(1, "h1", 0, bytes(8))
    found = first_difference(iter([record]), iter([record, record]))
    assert (found.position, found.left, found.right) == (1, None, record)


def test_traces_can_be_cut_at_any_time(tmp_path):
    trace = traced(1, tmp_path / "whole")
    trace.close()
    records = list(read(tmp_path / "whole"))
    when = records[len(records) // 2].time
    with small_world(1, trace=(short := Trace())) as world:
        task = world.spawn(transfer(world, length=100_000))
        world.run(when)
        cut = short.cut()
        assert cut == cut_records(read(tmp_path / "whole", until=when), short.devices)
        assert cut.time == when
        world.run(task)
        world.run()
        assert short.cut() == trace.cut()


def test_a_hash_only_trace_has_no_records():
    with pytest.raises(ValueError, match="keep=True"):
        list(Trace().records())


def test_files_that_are_not_traces_are_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"something else\n")
    with pytest.raises(ValueError, match="not a trace"):
        list(read(tmp_path / "x"))


def test_an_empty_trace_can_be_cut():
    assert Trace().cut().frames == 0
    assert isinstance(Trace().cut(), Cut)
