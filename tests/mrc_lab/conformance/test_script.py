"""What scripts may say, and the line and reason of what they may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_lab.conformance.collection import load_scripts
from mrc_lab.conformance.script import ScriptField, ScriptValue, parse_script
from mrc_lab.errors import ExperimentError

HEAD = "rule R2.8\ntitle a title\n"


def test_a_step_has_fields_checks_a_name_and_a_time() -> None:
    (step,) = parse_script(f"{HEAD}> data psn=0..7 ev!=first.ev : a rtx=0x1 as second within 5ms  # why", "x").steps
    assert (step.line, step.verb, step.kind, step.called, step.time) == (3, ">", "data", "second", 5_000_000)
    assert step.chosen == (
        ScriptField("psn", ScriptValue(0, 7)),
        ScriptField("ev", ScriptValue(packet="first", field="ev"), equal=False),
    )
    assert step.checks == (ScriptField("a", ScriptValue(1, 1)), ScriptField("rtx", ScriptValue(1, 1)))


def test_the_head_names_rule_title_repetitions_and_what_the_nic_needs() -> None:
    script = parse_script(f"{HEAD}repeat 5\nplanes 2\npaths 4\nwait 1ms", "x")
    assert (script.rule, script.title) == ("R2.8", "a title")
    assert (script.times, script.planes, script.paths) == (5, 2, 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title a\nwait 1ms", "x names no rule and title"),
        ("rule 28\ntitle a\nwait 1ms", "x names no rule and title"),
        (HEAD, "x has no steps"),
        (f"{HEAD}repeat 0\nwait 1ms", "x has 'repeat 0'"),
        (f"{HEAD}frobnicate 3", "x, line 3: there is no step 'frobnicate'"),
        (f"{HEAD}< datum psn=0", "x, line 3: '<' is followed by one of data, sack"),
        (f"{HEAD}<", "x, line 3: '<' is followed by one of"),
        (f"{HEAD}> data psn=zwölf", "x, line 3: 'zwölf' is no number"),
        (f"{HEAD}> data PSN=1", "x, line 3: 'PSN=1' is no field"),
        (f"{HEAD}> data psn=1..x", "x, line 3: 'x' is no number"),
        (f"{HEAD}< data a", "x, line 3: '< data' needs psn"),
        (f"{HEAD}< nack reason=trimmed", "x, line 3: '< nack' needs of"),
        (f"{HEAD}< data psn=0 rxt", "x, line 3: '< data' has no rxt; it has a, dscp, "),
        (f"{HEAD}complete state=success", "x, line 3: 'complete' has no state"),
        (f"{HEAD}wait", "x, line 3: 'wait' takes a time"),
        (f"{HEAD}wait 5", "x, line 3: "),
        (f"{HEAD}no sack : mark=none", "x, line 3: only '>' has checks behind a colon"),
    ],
)
def test_invalid_scripts_are_refused_with_line_and_reason(text: str, message: str) -> None:
    with pytest.raises(ExperimentError, match=message.replace("(", r"\(")):
        parse_script(text, "x")


def test_scripts_are_read_from_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "b.script").write_text(f"{HEAD}wait 1ms")
    (tmp_path / "a.script").write_text("rule R2.10\ntitle later\nwait 1ms")
    (tmp_path / "notes.txt").write_text("nothing")
    assert [script.name for script in load_scripts((tmp_path,))] == ["b", "a"]
    assert [script.name for script in load_scripts((tmp_path / "a.script",))] == ["a"]
    with pytest.raises(ExperimentError, match=r"missing\.script cannot be read"):
        load_scripts((tmp_path / "missing.script",))
    (tmp_path / "none").mkdir()
    with pytest.raises(ExperimentError, match="no file in"):
        load_scripts((tmp_path / "none",))
