"""The command line: p4c-bm2-ss's options and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from p4compiler.__main__ import main
from tests.p4compiler.compiled import SOURCES, compiled

FORWARD = str(SOURCES["forward"])


def test_json_and_p4info_are_written(tmp_path: Path) -> None:
    made, info = tmp_path / "a.json", tmp_path / "a.p4info.txtpb"
    assert main(["--std", "p4-16", "-o", str(made), "--p4runtime-files", str(info), FORWARD]) == 0
    assert json.loads(made.read_text()) == json.loads(compiled("forward").json)
    assert info.read_text() == compiled("forward").p4info


def test_errors_go_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "a.p4"
    program.write_text("const bit<8> a = B;\n")
    assert main([str(program), "-o", str(tmp_path / "a.json")]) == 1
    assert not (tmp_path / "a.json").exists()
    shown = capsys.readouterr()
    assert shown.err.startswith(f"{program}:1:18: error: 'B' is not declared\n")
    assert main([str(program), "-DB=c"]) == 1
    assert "'c' is not declared" in capsys.readouterr().err


def test_errors_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "a.p4"
    program.write_text("const bit<8> a = b;\n")
    assert main(["--json", str(program)]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["file"], found["line"], found["severity"]) == (str(program), 1, "error")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--std", "p4-14"], "only P4_16 is supported"),
        (["--arch", "psa"], "architecture 'psa' is not supported"),
        (["--p4runtime-files", "a.json"], "P4Info is written as text only"),
        (["-o", "/nowhere/a.json"], "'/nowhere/a.json' cannot be written: No such file or directory"),
        (["-o", "/dev/full"], "'/dev/full' cannot be written: No space left on device"),
        (["-D", "1x=2"], "<command line>:1:1: error: #define needs a name"),
        (["-o", FORWARD], "the program and the files to write need different names"),
        (["-o", "a.txt", "--p4runtime-files", "./a.txt"], "the program and the files to write need different names"),
    ],
)
def test_what_cannot_be_done_is_said(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*options, FORWARD]) == 1
    assert message in capsys.readouterr().err


def test_warnings_fail_where_that_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "a.p4"
    text = SOURCES["error_first"].read_text().replace("s.egress_spec = 1;", "s.egress_spec = 1; bit<8> unused;")
    program.write_text(text)
    assert main([str(program)]) == 0
    assert "variable 'unused' is unused [unused]" in capsys.readouterr().err
    assert main(["--Werror", str(program)]) == 1
    assert main(["--Werror=unused", str(program)]) == 1
    assert main(["--Werror=shadow", str(program)]) == 0
    capsys.readouterr()
    for option in ("--Wdisable", "--Wdisable=unused"):
        assert main([option, "--Werror", str(program)]) == 0
        assert capsys.readouterr().err == ""
    assert main(["--Wdisable=shadow", str(program)]) == 0
    assert "is unused [unused]" in capsys.readouterr().err
