"""Connection matrices of htsim: what is read, and what is refused with its line."""

from __future__ import annotations

import os
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mrc_lab.errors import FileError
from mrc_lab.workloads.htsim.connection_matrix import MatrixFailure, MatrixFlow, MatrixTrigger, TriggerKind
from mrc_lab.workloads.htsim.matrix_file import parse_matrix, read_matrix
from tests.mrc_lab.workloads.htsim.random_files import random_matrix
from tests.seeds import SEED

# Every form that htsim's parser has, apart from what is refused here (connection_matrix.cpp).
ALL_FORMS = """# a comment
Nodes 16

Connections 5
Triggers 3
Failures 1
7->15 id 1 start 0 size 2000000 send_done_trigger 1 recv_done_trigger 2
7->0 id 2 trigger 1 size 2000000 recv_done_trigger 2
3->4 start 5000 size 4096
3->5 size 1 start 1.5e6
4->3 id 7 trigger 2 size 2147483647 send_done_trigger 3
trigger id 1 oneshot
trigger id 2 barrier count 2
trigger multishot id 3
failure switch_type AGG switch_id 1 link_id 0
"""
HEAD = "Nodes 4\nConnections 1\n"
FLOW = "0->1 start 0 size 10"


def test_every_form_is_read() -> None:
    text = ALL_FORMS.replace("Connections 5", "Connections 6") + "0->1 id 9 trigger 3 size 5\n"
    found = parse_matrix(text, "all.cm")
    assert found.nodes == 16
    assert [replace(flow, line=0) for flow in found.flows] == [
        MatrixFlow(7, 15, 2_000_000, 0, 1, None, 1, 2),
        MatrixFlow(7, 0, 2_000_000, None, 2, 1, None, 2),
        MatrixFlow(3, 4, 4096, 5000),
        MatrixFlow(3, 5, 1, 1_500_000),
        MatrixFlow(4, 3, 2_147_483_647, None, 7, 2, 3),
        MatrixFlow(0, 1, 5, None, 9, 3),
    ]
    assert [flow.line for flow in found.flows] == [7, 8, 9, 10, 11, 16]
    assert [replace(trigger, line=0) for trigger in found.triggers] == [
        MatrixTrigger(1, TriggerKind.ONESHOT),
        MatrixTrigger(2, TriggerKind.BARRIER, 2),
        MatrixTrigger(3, TriggerKind.MULTISHOT),
    ]
    assert found.failures == (MatrixFailure(1, 0, 15),)


def test_picoseconds_become_the_nearest_nanosecond() -> None:
    starts = [MatrixFlow(0, 1, 1, start).start_ns for start in (0, 499, 500, 1499, 1500, 10**12)]
    assert starts == [0, 0, 1, 1, 2, 10**9]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.cm: has no line 'Nodes N'"),
        ("Nodes 4\n", "x.cm: has no line 'Connections N'"),
        ("Nodes 4\nConnections 0\n", "line 2: there are no connections"),
        ("Nodes 1\nConnections 1\n0->0 start 0 size 1", "line 1: Nodes is a whole number from 2"),
        ("Nodes 9999999999\n", "line 1: Nodes is a whole number from 2 to 65,535, not '9999999999'"),
        ("Nodes 99999999999999999999999\n", "line 1: Nodes is a whole number"),
        ("Nodes 4 5\n", "line 1: Nodes has one value"),
        ("Nodes\n", "line 1: Nodes has one value"),
        ("Nodes 4\nNodes 4\n", "line 2: Nodes is there already, in line 1"),
        ("Nodes 4\nConections 1\n", "line 2: 'Conections' is unknown; did you mean Connections?"),
        ("Connections 1\n0->1 start 0 size 1", "line 2: 'Nodes N' stands before it"),
        (f"Nodes 4\n{FLOW}", "line 2: this is one more than the header announces: there is no 'Connections N'"),
        (f"{HEAD}{FLOW}\n{FLOW}", "line 4: this is one more than the header announces: Connections is 1"),
        ("Nodes 4\nConnections 2\n" + FLOW, "line 2: Connections is 2, but the file has 1 of them"),
        (f"{HEAD}Triggers 1\n{FLOW}", "line 3: Triggers is 1, but the file has 0"),
        (f"{HEAD}{FLOW}\ntrigger id 1 oneshot", "line 4: this is one more"),
        (f"{HEAD}{FLOW}\nfailure switch_type AGG switch_id 0 link_id 0", "line 4: this is one more"),
        (f"{HEAD}{FLOW}\nTriggers 1", "line 4: Triggers stands before all connections"),
        (f"{HEAD}0->4 start 0 size 1", "line 3: there is no node 4: 4 nodes count from 0"),
        (f"{HEAD}0->-1 start 0 size 1", "line 3: a flow is written as 0->5"),
        (f"{HEAD}2->2 start 0 size 1", "line 3: node 2 sends to itself"),
        (f"{HEAD}0->1 start 0 size -5", "line 3: size is a whole number from 1 to 2,147,483,647, not '-5'"),
        (f"{HEAD}0->1 start 0 size 0", "line 3: size is 0, which in htsim is a flow without an end"),
        (f"{HEAD}0->1 start 0 size 2147483648", "line 3: size is a whole number"),
        (f"{HEAD}0->1 start 0 size 12abc", "line 3: size is a whole number from 1 to 2,147,483,647, not '12abc'"),
        (f"{HEAD}0->1 start -1 size 1", "line 3: start is a time in ps"),
        (f"{HEAD}0->1 start nan size 1", "line 3: start is a time in ps"),
        (f"{HEAD}0->1 start inf size 1", "line 3: start is a time in ps"),
        (f"{HEAD}0->1 start 1e99 size 1", "line 3: start is a time in ps"),
        (f"{HEAD}0->1 start 0", "line 3: size is missing"),
        (f"{HEAD}0->1 size 5", "line 3: has neither start nor trigger, so it never begins"),
        (f"{HEAD}0->1 start 0 size", "line 3: 'size' has no value"),
        (f"{HEAD}0->1 start 0 start 1 size 5", "line 3: start is there twice"),
        (f"{HEAD}0->1 start 0 size 5 colour 3", "line 3: 'colour' is unknown"),
        (f"{HEAD}0->1 start 0 size 5 prio 3", "line 3: flows have no priorities here"),
        (f"{HEAD}0->1 id 1 msg start 0 size 5", "line 3: each flow has a connection of its own here"),
        (f"{HEAD}0->1 start 0 size 5 addon", "line 3: a trigger begins a flow here"),
        (f"{HEAD}0->1 id 0 start 0 size 5", "line 3: id is a whole number from 1"),
        ("Nodes 4\nConnections 2\n0->1 id 3 start 0 size 5\n0->2 id 3 start 0 size 5", "line 4: id 3 is that of"),
        (f"{HEAD}Triggers 1\n0->1 start 0 trigger 1 size 5", "line 4: has start and trigger"),
        (f"{HEAD}0->1 trigger 1 size 5", "line 3: id is missing"),
        (f"{HEAD}Triggers 1\n{FLOW}\ntrigger id 1", "line 5: a trigger has an id and a kind"),
        (f"{HEAD}Triggers 1\n{FLOW}\ntrigger oneshot", "line 5: a trigger has an id and a kind"),
        (f"{HEAD}Triggers 1\n{FLOW}\ntrigger id 0 oneshot", "line 5: id of a trigger is a whole number from 1"),
        (f"{HEAD}Triggers 1\n{FLOW}\ntrigger id 1 oneshot barrier", "line 5: a trigger is one of oneshot"),
        (f"{HEAD}Triggers 1\n{FLOW}\ntrigger id 1 barrier", "line 5: count is missing"),
        (f"{HEAD}Triggers 1\n{FLOW}\ntrigger id 1 oneshot count 2", "line 5: count is that of a barrier"),
        (f"{HEAD}Triggers 1\n{FLOW}\ntrigger id 1 twoshot", "line 5: 'twoshot' is unknown"),
        (f"{HEAD}Triggers 2\n{FLOW}\ntrigger id 1 oneshot\ntrigger id 1 oneshot", "line 6: trigger 1 is there"),
        (f"{HEAD}Failures 1\n{FLOW}\nfailure switch_type TOR switch_id 0 link_id 0", "line 5: htsim fails links"),
        (f"{HEAD}Failures 1\n{FLOW}\nfailure switch_type AGG switch_id 0", "line 5: a failure has switch_type"),
        (f"{HEAD}Failures 1\n{FLOW}\nfailure switch_type X switch_id 0 link_id 0", "line 5: switch_type is one of"),
        (f"{HEAD}{FLOW}{' ' * 1100}", "line 3: a line has at most 1024 characters"),
        (f"{HEAD}{FLOW}\x07", "line 3: is not text: it has control characters"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_in_one_sentence_with_its_line(text: str, message: str) -> None:
    with pytest.raises(FileError) as refused:
        parse_matrix(text, "x.cm")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "device", "too large", "binary"])
def test_what_is_no_text_file_is_refused(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "x.cm"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        place = Path("/dev/zero")
    elif kind == "too large":
        place.touch()
        os.truncate(place, 1 << 40)
    elif kind == "binary":
        place.write_bytes(b"Nodes 4\n\xff\xfe\x00")
    with pytest.raises(FileError, match=re.escape(str(place))) as refused:
        read_matrix(place)
    assert "\n" not in str(refused.value)


def test_random_matrices_are_read_as_they_were_written() -> None:
    for seed in range(SEED, SEED + 200):
        matrix = random_matrix(random.Random(seed))
        found = parse_matrix(matrix.text(), matrix.source)
        bare = replace(
            found,
            flows=tuple(replace(flow, line=0) for flow in found.flows),
            triggers=tuple(replace(trigger, line=0) for trigger in found.triggers),
            failures=tuple(replace(failure, line=0) for failure in found.failures),
        )
        assert bare == matrix, f"seed {seed}"


def test_damaged_files_are_read_or_refused_in_one_sentence() -> None:
    words = ["-1", "0", "99999999999", "trigger", "id", "Nodes", "\x00", "1e9", "->", "\t", "count 2", "\n", "prio 1"]
    for seed in range(SEED, SEED + 1000):
        chance = random.Random(seed)
        text = random_matrix(chance).text()
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice(["", chance.choice(words)]) + text[at + chance.choice([0, 1, 5, 50]) :]
        try:
            again = parse_matrix(text, "x.cm")
        except FileError as error:
            said = str(error)
        else:
            said = "x.cm: fine"
            assert parse_matrix(again.text(), "x.cm").text() == again.text(), f"seed {seed}"
        assert said.startswith("x.cm"), f"seed {seed}"
        assert len(said) < 250, f"seed {seed}"
        assert "\n" not in said, f"seed {seed}"
