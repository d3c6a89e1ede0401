"""Triggers: what they begin, and those that are refused since htsim would stop or a flow would never begin."""

from __future__ import annotations

import pytest

from mrc_lab.errors import FileError
from mrc_lab.workloads.htsim.matrix_file import parse_matrix
from mrc_lab.workloads.htsim.triggers import RunningTriggers


def matrix(flows: list[str], triggers: list[str]) -> str:
    return "\n".join(
        [
            f"Nodes 8\nConnections {len(flows)}\nTriggers {len(triggers)}",
            *flows,
            *(f"trigger {one}" for one in triggers),
        ]
    )


def begun(kind: str, activations: int) -> list[list[int]]:
    """Flows that each of so many activations of a trigger begins; three wait for it."""
    first = [f"0->1 id {n} start 0 size 1 send_done_trigger 1" for n in range(1, activations + 1)]
    waiting = [f"0->1 id {n} trigger 1 size 1" for n in range(11, 14)]
    found = parse_matrix(matrix(first + waiting, [f"id 1 {kind}"]), "x.cm")
    triggers = RunningTriggers(found)
    return [[number - activations for number in triggers.activate(1)] for _ in range(activations)]


def test_a_oneshot_begins_all_at_once() -> None:
    assert begun("oneshot", 1) == [[0, 1, 2]]


def test_a_barrier_begins_all_the_last_time() -> None:
    assert begun("barrier count 3", 3) == [[], [], [0, 1, 2]]


def test_a_multishot_begins_one_each_time_in_the_order_of_the_file() -> None:
    assert begun("multishot", 4) == [[0], [1], [2], []]


@pytest.mark.parametrize(
    ("flows", "triggers", "message"),
    [
        (["0->1 id 1 trigger 5 size 1"], [], "line 4: there is no trigger 5"),
        (["0->1 id 1 start 0 size 1 send_done_trigger 5"], [], "line 4: there is no trigger 5"),
        (["0->1 id 1 start 0 size 1 send_done_trigger 1"], ["id 1 oneshot"], "line 4: activates trigger 1, which"),
        (["0->1 id 1 trigger 1 size 1"], ["id 1 oneshot"], "line 5: trigger 1 is activated 0 times"),
        (
            ["0->1 id 1 trigger 1 size 1 send_done_trigger 1"],
            ["id 1 oneshot"],
            "line 4: this flow never begins: trigger 1 waits, in a circle",
        ),
        (
            [
                "0->1 id 1 trigger 1 size 1 send_done_trigger 2",
                "0->1 id 2 trigger 2 size 1 recv_done_trigger 1",
                "0->1 id 3 start 0 size 1",
            ],
            ["id 1 oneshot", "id 2 oneshot"],
            "line 4: this flow never begins",
        ),
        (
            [*(f"0->1 id {n} start 0 size 1 send_done_trigger 1" for n in (1, 2)), "0->1 id 3 trigger 1 size 1"],
            ["id 1 oneshot"],
            "line 7: oneshot trigger 1 is activated by 2 flows",
        ),
        (
            ["0->1 id 1 start 0 size 1 send_done_trigger 1", "0->1 id 3 trigger 1 size 1"],
            ["id 1 barrier count 2"],
            "line 6: barrier 1 counts to 2, but 1 flows activate it",
        ),
        (
            ["0->1 id 1 start 0 size 1 send_done_trigger 1", *(f"0->1 id {n} trigger 1 size 1" for n in (3, 4))],
            ["id 1 multishot"],
            "line 7: trigger 1 is activated 1 times, so a flow would never begin",
        ),
    ],
)  # fmt: skip
def test_what_would_not_run_is_refused(flows: list[str], triggers: list[str], message: str) -> None:
    with pytest.raises(FileError) as refused:
        parse_matrix(matrix(flows, triggers), "x.cm")
    assert message in str(refused.value)


def test_a_long_chain_is_no_problem() -> None:
    count = 5000
    flows = ["0->1 id 1 start 0 size 1 send_done_trigger 1"]
    flows += [f"0->1 id {n + 1} trigger {n} size 1 send_done_trigger {n + 1}" for n in range(1, count)]
    flows.append(f"0->1 id {count + 1} trigger {count} size 1")
    text = matrix(flows, [f"id {n} oneshot" for n in range(1, count + 1)])
    assert len(parse_matrix(text, "x.cm").flows) == count + 1
