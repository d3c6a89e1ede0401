"""Replays in simulation, judged by what was recorded: dependencies, matches, bytes, CPUs."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict, deque

import pytest

from mrc_host.verbs_types import QpAttributes
from mrc_lab.errors import TransferError
from mrc_lab.workloads.schedules.goal import parse_goal
from mrc_lab.workloads.schedules.messages import MessageSettings, ScheduleMessages
from mrc_lab.workloads.schedules.progress import NEVER, ScheduleProgress
from mrc_lab.workloads.schedules.replay import Replay
from mrc_lab.workloads.schedules.schedule import ANY, Operation, OperationKind, Schedule, check
from simulation.world import SimulatedWorld
from tests.mrc_lab.workloads.schedules.test_goal import program
from tests.seeds import SEED
from topologies.clos import multi_plane_clos

HOSTS = 4


def replay(
    schedule: Schedule, settings: MessageSettings | None = None, seed: int = 1
) -> tuple[ScheduleProgress, ScheduleMessages]:
    """Run a schedule to its end on four hosts."""
    with SimulatedWorld(multi_plane_clos(planes=2, t0=2, t1=2, hosts=HOSTS), seed=seed, rate=100_000_000_000) as world:
        contexts = [world.open(f"h{rank + 1}") for rank in range(schedule.ranks)]
        attributes = world.attributes(QpAttributes())
        messages = ScheduleMessages(schedule, settings or MessageSettings(), contexts, lambda context: attributes, seed)
        run = Replay(schedule, messages, lambda: world.now)
        world.run(run.run())
        return run.progress, messages


def random_schedule(rng: random.Random, wildcards: bool) -> Schedule:
    """Random operations with dependencies on earlier ones of the rank, so that there is an order in which all can go.

    The order is that of the list: every receive stands after its send. Sends and receives of the same ranks and tag
    start in the order of the list, since otherwise one may take a message that another needs to go on.
    """
    latest: dict[tuple[OperationKind, int, int, int], int] = {}
    operations: list[Operation] = []
    by_rank: defaultdict[int, list[int]] = defaultdict(list)

    def add(operation: Operation) -> None:
        before = by_rank[operation.rank]
        for chosen in rng.sample(before, min(len(before), rng.choice((0, 0, 1, 2)))):
            (operation.requires if rng.random() < 0.7 else operation.irequires).append(chosen)
        if operation.kind is not OperationKind.CALC:
            key = operation.kind, operation.rank, operation.peer, operation.tag
            if key in latest:
                operation.irequires.append(latest[key])
            latest[key] = len(operations)
        before.append(len(operations))
        operations.append(operation)

    ranks = rng.randint(2, HOSTS)
    for _ in range(rng.randint(1, 60)):
        rank, other, tag = rng.randrange(ranks), rng.randrange(ranks), rng.randrange(3)
        if rng.random() < 0.3:
            add(Operation(rank, OperationKind.CALC, rng.choice((0, 10, 3000)), cpu=rng.randrange(2)))
            continue
        size = rng.choice((0, 1, 100, 4096, 5000, 40_000))
        add(Operation(rank, OperationKind.SEND, size, other, tag, queue=rng.randrange(2)))
        wild = wildcards and rng.random() < 0.5
        add(
            Operation(
                other, OperationKind.RECV, size, ANY if wild else rank, tag if not wild or rng.random() < 0.5 else ANY
            )
        )
    return Schedule("random", ranks, operations)


def judge(schedule: Schedule, run: Replay, messages: ScheduleMessages) -> None:
    """The oracle: what must hold whatever the network did. It knows nothing of how a replay works."""
    operations = schedule.operations
    assert NEVER not in run.began
    assert NEVER not in run.ended
    for number, one in enumerate(operations):
        assert run.began[number] <= run.ended[number], one
        for other in one.requires:
            assert run.ended[other] <= run.began[number], (str(one), str(operations[other]))
        for other in one.irequires:
            assert run.began[other] <= run.began[number], (str(one), str(operations[other]))
        if one.kind is OperationKind.CALC:
            assert run.ended[number] - run.began[number] >= one.size
    busy: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for number, one in enumerate(operations):
        if one.kind is OperationKind.CALC:
            busy[one.rank, one.cpu].append((run.began[number], run.ended[number]))
    for spans in busy.values():
        spans.sort()
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))
    sent = sum(one.size for one in operations if one.kind is OperationKind.SEND and one.peer != one.rank)
    assert (messages.wrong_bytes, messages.checked_bytes) == (0, sent)


def judge_matches(schedule: Schedule, run: Replay) -> None:
    """Without wildcards the n-th receive posted takes the n-th message sent; none ends before its message could be."""
    sends: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    receives: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for number, one in enumerate(schedule.operations):
        if one.kind is OperationKind.SEND:
            sends[one.rank, one.peer, one.tag].append(number)
        elif one.kind is OperationKind.RECV:
            receives[one.peer, one.rank, one.tag].append(number)
    for key, numbers in receives.items():
        began = deque(sorted(run.began[number] for number in sends[key]))
        for number in sorted(numbers, key=lambda number: run.ended[number]):
            assert began.popleft() <= run.ended[number]
        assert not began


@pytest.mark.parametrize("wildcards", [False, True])
def test_random_schedules_complete_with_every_dependency_and_byte(wildcards: bool) -> None:
    start = SEED
    for seed in range(start, start + 25):
        print(f"seed {seed}")
        rng = random.Random(seed)
        schedule = random_schedule(rng, wildcards)
        check(schedule)
        settings = MessageSettings(slots=rng.randint(1, 5), queue_pairs=rng.randint(1, 2))
        try:
            run, messages = replay(schedule, settings, seed)
        except TransferError:
            if not wildcards:
                raise
            continue  # one that takes any may take what another needs
        judge(schedule, run, messages)
        if not wildcards:
            judge_matches(schedule, run)


def test_a_dependency_chain_takes_the_sum_of_its_times() -> None:
    text = program(
        "a: calc 1000\nb: calc 500\nb requires a\nc: calc 300\nc irequires a\nd: calc 70 cpu 1\nd irequires a"
    )
    run, _ = replay(parse_goal(text, "f"))
    assert [began - run.began[0] for began in run.began] == [0, 1300, 1000, 0]  # c may start before b may
    assert [ended - run.began[0] for ended in run.ended] == [1000, 1800, 1300, 70]


def test_messages_of_one_tag_stay_in_order_over_several_queue_pairs() -> None:
    """The first is large: over another queue pair the second would overtake it."""
    text = program("a: send 400000b to 1\nb: send 1b to 1", "x: recv 400000b from 0\ny: recv 1b from 0\ny irequires x")
    run, messages = replay(parse_goal(text, "f"), MessageSettings(slots=4, queue_pairs=2))
    assert run.ended[0] > run.ended[1]  # they did overtake
    assert run.ended[2] <= run.ended[3]
    assert messages.checked_bytes == 400_001


def test_messages_may_arrive_before_their_receive() -> None:
    """Fifty messages through one slot, and the receiver looks only at the end, in the other order of tags."""
    sends = "\n".join(f"send 5000b to 1 tag {tag}" for tag in range(50))
    receives = "\n".join(f"r{tag}: recv 5000b from 0 tag {tag}\nr{tag} requires z" for tag in reversed(range(50)))
    text = program(sends, f"z: calc 1000000\n{receives}")
    run, messages = replay(parse_goal(text, "f"), MessageSettings(slots=1))
    assert max(run.ended[:50]) < 1_000_000
    assert messages.checked_bytes == 250_000


def test_a_wildcard_deadlock_is_reported_with_the_waiting_operations() -> None:
    """The first receive takes what the second needs."""
    text = program("send 5b to 1 tag 7", "a: recv 5b from -1 tag -1\nb: recv 5b from 0 tag 7\nb requires a")
    schedule = parse_goal(text, "f")
    check(schedule)
    with pytest.raises(TransferError, match=r"a deadlock: .* there wait rank 1: recv 5b from 0 tag 7 \(b in line 7\)"):
        replay(schedule)
