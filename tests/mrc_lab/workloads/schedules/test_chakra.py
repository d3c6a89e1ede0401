"""Chakra traces become schedules: nodes, their dependencies, collectives as messages; wrong files get the reason."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mrc_lab.errors import FileError
from mrc_lab.workloads.schedules.chakra import rank_files, read_chakra
from mrc_lab.workloads.schedules.schedule import Operation, OperationKind, Schedule, check
from tests.mrc_lab.workloads.schedules import chakra_traces as traces
from tests.mrc_lab.workloads.schedules.chakra_traces import (
    ALL_REDUCE,
    COLLECTIVE,
    COMPUTE,
    METADATA,
    RECV,
    SEND,
    node,
    write,
)

SENDS, RECEIVES, CALCS = OperationKind.SEND, OperationKind.RECV, OperationKind.CALC


def of(schedule: Schedule, rank: int, kind: OperationKind) -> list[Operation]:
    return [one for one in schedule.operations if (one.rank, one.kind) == (rank, kind)]


def collective(ranks: int, kind: int, size: int, **more: int) -> list[list[bytes]]:
    """A trace with a collective alone."""
    return [[node(0, COLLECTIVE, "c", comm_type=kind, comm_size=size, **more)] for _ in range(ranks)]


def test_nodes_become_what_they_did_and_wait_for_what_they_depend_on(tmp_path: Path) -> None:
    first = [
        node(7, SEND, "send", after=(9, 8), comm_size=100, comm_dst=1, comm_tag=4),  # before those it depends on
        node(8, COMPUTE, "forward", us=3),
        node(9, METADATA, "begin"),
    ]
    second = [node(1, RECV, "receive", comm_size=100, comm_src=0, comm_tag=4), node(2, traces.LOAD, after=(1,), us=5)]
    schedule = read_chakra(write(tmp_path, first, second))
    assert schedule.ranks == 2
    send, forward, begin, receive, load = schedule.operations
    assert (send.kind, send.size, send.peer, send.tag, send.requires) == (SENDS, 100, 1, 4, [2, 1])
    assert (forward.kind, forward.size, forward.label, forward.line) == (CALCS, 3000, "forward", 2)
    assert (receive.kind, receive.peer, load.requires) == (RECEIVES, 0, [3])
    assert (load.size, load.label) == (5000, "node 2")
    assert len({forward.cpu, load.cpu, begin.cpu}) == 3, "computing, memory and what takes no time do not wait in line"
    check(schedule)


def test_computing_of_cpu_and_gpu_is_beside_each_other(tmp_path: Path) -> None:
    # As in ASTRA-sim's HardwareResource; Chakra's feeder takes a node that does not say it for one of the CPU.
    nodes = [
        node(0, COMPUTE, "cpu", us=1, is_cpu_op=True),
        node(1, COMPUTE, "gpu", us=1, is_cpu_op=False),
        node(2, COMPUTE, "unsaid", us=1),
        node(3, COMPUTE, "number", us=1, is_cpu_op=0),
        node(4, traces.LOAD, "load", us=1, is_cpu_op=False),
    ]
    cpu, gpu, unsaid, as_number, load = (one.cpu for one in read_chakra(write(tmp_path, nodes)).operations)
    assert cpu == unsaid
    assert gpu == as_number
    assert len({cpu, gpu, load}) == 3
    with pytest.raises(FileError, match=r"node 1 .*: is_cpu_op is 'yes': true or false is needed"):
        read_chakra(write(tmp_path, [node(0, COMPUTE, us=1, is_cpu_op="yes")]))


@pytest.mark.parametrize(
    ("kind", "sends", "sizes"),
    [  # of four ranks that give 1000 bytes each: how many each sends, and of what size
        (traces.ALL_REDUCE, [6, 6, 6, 6], {250}),
        (traces.REDUCE_SCATTER, [3, 3, 3, 3], {250}),
        (traces.ALL_GATHER, [3, 3, 3, 3], {1000}),
        (traces.ALL_TO_ALL, [3, 3, 3, 3], {250}),
        (traces.BROADCAST, [1, 0, 1, 1], {1000}),
        (traces.REDUCE, [1, 1, 0, 1], {1000}),
        (traces.GATHER, [1, 1, 0, 1], {1000}),
        (traces.SCATTER, [0, 0, 3, 0], {250}),
        (traces.BARRIER, [6, 6, 6, 6], {0}),
    ],
)
def test_collectives_send_what_their_algorithm_does(
    tmp_path: Path, kind: int, sends: list[int], sizes: set[int]
) -> None:
    schedule = read_chakra(write(tmp_path, *collective(4, kind, 1000, root_rank=2)))
    check(schedule)
    assert [len(of(schedule, rank, SENDS)) for rank in range(4)] == sends
    assert {one.size for one in schedule.operations if one.kind is SENDS} == sizes
    for rank in range(4):
        (end,) = of(schedule, rank, CALCS)
        assert len(end.requires) == sum(one.rank == rank for one in schedule.operations) - 1


def test_a_rank_of_a_ring_sends_on_what_it_has_received_in_the_round_before(tmp_path: Path) -> None:
    schedule = read_chakra(write(tmp_path, *collective(4, ALL_REDUCE, 1000)))
    for rank in range(4):
        sends, receives = of(schedule, rank, SENDS), of(schedule, rank, RECEIVES)
        waited_for = [[schedule.operations[other] for other in one.requires] for one in sends]
        assert waited_for == [[], *([one] for one in receives[:-1])]
        assert {one.peer for one in sends} == {(rank + 1) % 4}


def test_a_collective_waits_as_a_whole_and_is_waited_for_as_a_whole(tmp_path: Path) -> None:
    rank = [
        node(1, COMPUTE, "forward", us=1),
        node(2, COLLECTIVE, "sum", after=(1,), comm_type=ALL_REDUCE, comm_size=10),
        node(3, COMPUTE, "step", after=(2,), us=1),
    ]
    schedule = read_chakra(write(tmp_path, rank, rank))
    check(schedule)
    forward, _, step = of(schedule, 0, CALCS)
    end = step.requires[0]
    assert schedule.operations[end].label == "sum"
    first = [
        one
        for one in of(schedule, 0, SENDS) + of(schedule, 0, RECEIVES)
        if schedule.operations.index(forward) in one.requires
    ]
    assert len(first) == 3, "the first send and both receives"
    assert all(other in schedule.operations[end].requires for other in map(schedule.operations.index, first))


def test_groups_have_collectives_of_their_own(tmp_path: Path) -> None:
    group = {0: "even", 1: "odd", 2: "even", 3: "odd"}
    ranks = [
        [node(0, COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8, pg_name=group[rank]) for _ in range(1)]
        for rank in range(4)
    ]
    schedule = read_chakra(write(tmp_path, *ranks))
    pairs = Counter((one.rank, one.peer) for one in schedule.operations if one.kind is SENDS)
    assert pairs == {(0, 2): 2, (2, 0): 2, (1, 3): 2, (3, 1): 2}


def test_all_files_of_a_trace_are_read_until_one_is_missing(tmp_path: Path) -> None:
    path = write(tmp_path, *collective(12, ALL_REDUCE, 10))
    assert [file.name for file in rank_files(path)] == [f"trace.{rank}.et" for rank in range(12)]
    (tmp_path / "trace.5.et").unlink()
    assert len(rank_files(path)) == 5


GOOD = node(1, COMPUTE, us=1)


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([GOOD, node(1, COMPUTE)], r"trace\.0\.et, node 2 \(id 1\): another node before it has the same id"),
        ([node(1, COMPUTE, after=(5,))], "depends on a node 5, which this rank does not have"),
        ([node(1, COMPUTE, after=(1,))], "wait for each other in a circle"),
        ([node(1, 0)], r"node 1 \(id 1\): its type is 0, which no node"),
        ([node(1, COMPUTE, us=1 << 62)], "is too long"),
        ([node(1, SEND, comm_dst=0)], "comm_size is missing: a number from 0 to"),
        ([node(1, SEND, comm_size=1, comm_dst=1)], "comm_dst is 1: a number from 0 to 0"),
        ([node(1, SEND, comm_size=1 << 40, comm_dst=0)], "comm_size is 1099511627776"),
        ([node(1, SEND, comm_size="big", comm_dst=0)], "comm_size is 'big'"),
        ([node(1, RECV, comm_size=1, comm_src=0)], "would wait for ever: no send matches"),
        ([node(1, COLLECTIVE, comm_type=77)], "comm_type is 77, which no collective"),
        ([node(1, COLLECTIVE, comm_type="sum")], "comm_type is 'sum'"),
        ([node(1, COLLECTIVE, comm_type=5, comm_size=1, root_rank=4)], "root_rank is 4"),
        ([b"\xff\xff\xff"], "node 1 is no message of a Chakra trace"),
    ],
)
def test_a_wrong_trace_is_refused_with_node_and_reason(tmp_path: Path, nodes: list[bytes], why: str) -> None:
    with pytest.raises(FileError, match=why):
        check(read_chakra(write(tmp_path, nodes)))


def test_ranks_that_call_different_collectives_are_named(tmp_path: Path) -> None:
    one, two = collective(1, ALL_REDUCE, 8)[0], collective(1, ALL_REDUCE, 16)[0]
    with pytest.raises(
        FileError, match=r"trace\.1\.et, node 1 .* all_reduce of 16 bytes where rank 0 has all_reduce of 8"
    ):
        read_chakra(write(tmp_path, one, two))
    again = node(1, COLLECTIVE, comm_type=ALL_REDUCE, comm_size=8)
    with pytest.raises(FileError, match=r"trace\.0\.et, node 2 .*: rank 1 does not take part: it has 1 calls"):
        read_chakra(write(tmp_path, [*one, again], one))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"\x05ab", "is no Chakra trace: its first message has no end"),
        (b"\x80" * 20, "is no Chakra trace: its first message has no end"),
        (b"\x00\x85", "ends within node 1, as if cut off"),
    ],
)
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "t.0.et").write_bytes(content)
    with pytest.raises(FileError, match=rf"t\.0\.et: {why}"):
        read_chakra(tmp_path / "t.0.et")


def test_a_file_of_another_rank_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"name the file that ends in \.0\.et"):
        read_chakra(tmp_path / "trace.1.et")


@pytest.mark.second_ring
def test_no_trace_becomes_more_operations_than_a_schedule_may_have(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="more than 500000 operations with those of its collectives"):
        read_chakra(write(tmp_path, *collective(600, ALL_REDUCE, 1)))


def test_traces_of_the_projects_own_classes_are_read(tmp_path: Path) -> None:
    schema = pytest.importorskip("chakra.schema.protobuf.et_def_pb2", reason="mlc-chakra is not installed")
    made = schema.Node(id=3, name="sum", type=schema.COMM_COLL_NODE, data_deps=[2])
    made.attr.append(schema.AttributeProto(name="comm_type", int64_val=schema.ALL_REDUCE))
    made.attr.append(schema.AttributeProto(name="comm_size", uint64_val=8))
    made.attr.append(schema.AttributeProto(name="is_cpu_op", bool_val=False))
    made.attr.append(schema.AttributeProto(name="dims", int64_list=schema.Int64List(values=[1, 2])))
    compute = schema.Node(id=2, name="forward", type=schema.COMP_NODE, duration_micros=4)
    nodes = [compute.SerializeToString(), made.SerializeToString()]
    schedule = read_chakra(write(tmp_path, nodes, nodes))
    check(schedule)
    assert [one.size for one in of(schedule, 0, CALCS)] == [4000, 0]
    assert [one.size for one in of(schedule, 0, SENDS)] == [4, 4]
