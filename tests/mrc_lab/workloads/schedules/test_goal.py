from __future__ import annotations

from pathlib import Path

import pytest

from mrc_lab.errors import FileError
from mrc_lab.workloads.schedules import goal, schedule
from mrc_lab.workloads.schedules.goal import parse_goal, read_goal
from mrc_lab.workloads.schedules.schedule import ANY, OperationKind, check

# Every form that LogGOPSim's txt2bin accepts (txt2bin.re, states 0 to 24).
ALL_FORMS = """// a comment
num_ranks 3

/* a comment
   of two lines */
rank 0 {
l1: calc 100 cpu 2
send 10b to 1
l2 : send 10 b to 1 tag 4 cpu 0 nic 1
l3: send 0b to 2 nic 3
l4: send 7b to 2 tag -1
l2 requires l1
l3 irequires l2
calc 5
}
rank 2 { // after a bracket
\tl1:\trecv 7b from -1 tag -1 cpu 1 nic 2\r
l9_a: recv 0b from 0
}
"""


def test_every_statement_form_is_parsed() -> None:
    found = parse_goal(ALL_FORMS, "all.goal")
    shown = [(o.rank, o.kind.value, o.size, o.peer, o.tag, o.cpu, o.queue, o.label, o.line) for o in found.operations]
    assert found.ranks == 3
    assert shown == [
        (0, "calc", 100, 0, 0, 2, 0, "l1", 7),
        (0, "send", 10, 1, 0, 0, 0, "", 8),
        (0, "send", 10, 1, 4, 0, 1, "l2", 9),
        (0, "send", 0, 2, 0, 0, 3, "l3", 10),
        (0, "send", 7, 2, ANY, 0, 0, "l4", 11),
        (0, "calc", 5, 0, 0, 0, 0, "", 14),
        (2, "recv", 7, ANY, ANY, 1, 2, "l1", 17),
        (2, "recv", 0, 0, 0, 0, 0, "l9_a", 18),
    ]
    assert found.operations[2].requires == [0]
    assert found.operations[3].irequires == [2]


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["l1: calc 5", "l2 requires l1"], "f, line 4: unknown label l2: rank 0 defines it nowhere above this line"),
        (["l1: calc 5", "l1: calc 6"], "f, line 4: label l1 is in line 3 already"),
        (["send 5b to 2"], "f, line 3: there is no rank 2: num_ranks is 2, and ranks count from 0"),
        (["recv 5b from 7"], "f, line 3: there is no rank 7"),
        (["send 5b to -1"], "f, line 3: a send must name its receiver; only a recv may say from -1"),
        (["send 5b from 1"], "f, line 3: a send has 'to', and a recv has 'from'"),
        (["send 5 to 1"], "f, line 3: 'send 5 to 1' is no statement"),
        (["send 5b to 1 nic 0 cpu 0"], "is no statement: expected"),
        (["send 1073741825b to 1"], "f, line 3: a message is 1073741824 at most, not 1073741825"),
        (["calc 99999999999999999999999999"], "f, line 3: a calc is 1125899906842624 at most"),
        (["send 5b to 1 tag 4294967295"], "f, line 3: a tag is 4294967294 at most"),
        (["calc 5 cpu 256"], "f, line 3: cpu is 255 at most, not 256"),
        (["}", "rank 0 {"], "f, line 4: rank 0 is there twice"),
        (["}", "rank 2 {"], "f, line 4: there is no rank 2"),
        (["}", "calc 5"], "f, line 4: 'calc 5' is outside of a rank"),
        (["}", "num_ranks 2"], "f, line 4: num_ranks is there twice"),
        (["/* never"], "f, line 3: this comment does not end"),
        (["x" * 2000], "f, line 3: a line has at most 1024 characters"),
    ],
)
def test_an_invalid_line_is_reported_with_its_reason(lines: list[str], error: str) -> None:
    text = "\n".join(["num_ranks 2", "rank 0 {", *lines, "}"])
    with pytest.raises(FileError) as raised:
        parse_goal(text, "f")
    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "f, line 1: num_ranks is missing"),
        ("rank 0 {\n}", "f, line 1: num_ranks is missing"),
        ("num_ranks 0", "f, line 1: num_ranks is 0"),
        ("num_ranks 4097", "f, line 1: num_ranks is 4096 at most"),
        ("num_ranks 1\nrank 0 {\ncalc 5", "f, line 2: rank 0 has no closing bracket"),
    ],
)
def test_a_file_without_its_outer_structure_is_refused(text: str, error: str) -> None:
    with pytest.raises(FileError) as raised:
        parse_goal(text, "f")
    assert error in str(raised.value)


def program(*ranks: str) -> str:
    blocks = "".join(f"rank {number} {{\n{text}\n}}\n" for number, text in enumerate(ranks))
    return f"num_ranks {len(ranks)}\n{blocks}"


@pytest.mark.parametrize(
    ("ranks", "error"),
    [
        (["a: calc 1\nb: calc 2\na requires b\nb irequires a"], "wait for each other in a circle: "),
        (["a: calc 1\na requires a"], "in a circle: rank 0: calc 1 (a in line 3)"),
        (["recv 5b from 1 tag 2", "send 5b to 0 tag 3"], "no send matches rank 0: recv 5b from 1 tag 2 (line 3)"),
        (["send 5b to 1 tag 3", ""], "no receive matches rank 0: send 5b to 1 tag 3 (line 3)"),
        (
            # each sends only once it has received
            ["r: recv 5b from 1\ns: send 5b to 1\ns requires r", "r: recv 5b from 0\ns: send 5b to 0\ns requires r"],
            "would wait for ever: no send matches rank 0: recv 5b from 1 tag 0 (r in line 3); rank 1: recv",
        ),
    ],
)
def test_schedules_that_deadlock_are_refused_before_the_run(ranks: list[str], error: str) -> None:
    found = parse_goal(program(*ranks), "f")
    with pytest.raises(FileError) as raised:
        check(found)
    assert str(raised.value).startswith("f: ")
    assert error in str(raised.value)


def test_a_started_receive_may_release_its_send() -> None:
    """With irequires each sends once it has begun to receive: no deadlock."""
    one = "r: recv 5b from {0}\ns: send 5b to {0}\ns irequires r"
    check(parse_goal(program(one.format(1), one.format(0)), "f"))


def test_oversized_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f.goal"
    with file.open("wb") as stream:
        stream.truncate(goal.MAX_FILE + 1)  # takes no room
    with pytest.raises(FileError, match="It has more than 64 MiB, which is the most"):
        read_goal(file)
    monkeypatch.setattr(goal, "MAX_OPERATIONS", 3)
    with pytest.raises(FileError, match="f, line 6: more than 3 operations, which is the most"):
        parse_goal(program("\n".join(["calc 1"] * 4)), "f")


def test_binary_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "f.bin"
    file.write_bytes(b"\xff\x00\x01")
    with pytest.raises(FileError, match="if it comes from txt2bin"):
        read_goal(file)
    with pytest.raises(FileError, match=r"none\.goal: cannot be read: No such file"):
        read_goal(tmp_path / "none.goal")


def test_many_dependencies_of_one_operation_take_linear_time() -> None:
    """Not quadratic: 200,000 of them would take minutes."""
    count = 200_000
    text = program("z: calc 1\na: calc 1\n" + "z requires a\n" * count)
    found = parse_goal(text, "f")
    assert len(found.operations[0].requires) == count
    check(found)


def test_a_mailbox_returns_the_oldest_match() -> None:
    box = schedule.Mailbox()
    for number, (source, tag) in enumerate([(1, 5), (2, 5), (1, 6), (1, 5)]):
        box.put(source, tag, number)
    assert box.take(3, 5) is None
    assert box.take(1, 5) == 0
    assert box.take(ANY, 5) == 1
    assert box.take(1, ANY) == 2
    assert list(box) == [3]
    assert box.take(ANY, ANY) == 3
    box.put(ANY, 7, 9)
    assert box.take(4, 8) is None
    assert box.take(4, 7) == 9
    assert OperationKind.SEND.value == "send"
