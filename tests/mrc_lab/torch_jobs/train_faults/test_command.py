"""``mrc train-faults`` as users call it, without a fabric: what it lists and refuses, and that it resumes."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from mrc_common.written_files import write_text
from mrc_lab.cli.main import run
from mrc_lab.torch_jobs import installation
from mrc_lab.torch_jobs.train_faults import results, run_case
from tests.mrc_lab.torch_jobs.train_faults import runs
from topologies.emulation import requirements


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The runs that are done, which here take no fabric; a second one of a rank that is killed is interrupted."""
    done: list[tuple[str, str]] = []

    def instead(_matrix: Any, case: Any, stack: Any, *_more: Any) -> dict[str, Any]:
        if case.name == "rank-killed" and done:
            raise KeyboardInterrupt
        done.append((case.name, stack.name))
        return runs.undisturbed(case=case.name, stack=stack.name)

    monkeypatch.setattr(run_case, "run_case", instead)
    monkeypatch.setattr(requirements, "check", lambda **_options: None)
    monkeypatch.setattr(installation, "installed", lambda: True)
    return done


def test_the_list_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train-faults", "--list", "--only", "rank-killed"]) == 0
    assert capsys.readouterr().out == (
        "stacks: gloo, rc, mrc\nstacks that run only if they are named: mrc-3s\nrank-killed: a rank is killed\n"
    )


def test_runs_are_done_once_and_a_repeated_command_runs_what_is_missing(
    ran: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train-faults", "--only", "cut-port", "--only", "mrc", "--output", str(tmp_path)]
    assert run(command) == 0
    assert run([*command, "--only", "rc"]) == 0
    assert ran == [("cut-port", "mrc"), ("cut-port", "rc")]
    assert "unnecessary in 0 of 1 cases" in capsys.readouterr().out
    page = (tmp_path / "train-faults.md").read_text()
    assert "| cut-port | a link of a NIC is cut | goes on, +0.0 s | goes on, +0.0 s |" in page
    assert len((tmp_path / "train-faults.csv").read_text().splitlines()) == 3


def test_an_interrupt_keeps_the_runs_that_are_done(ran: list[tuple[str, str]], tmp_path: Path) -> None:
    command = ["train-faults", "--only", "rank-killed", "--output", str(tmp_path)]
    assert run(command) != 0
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["rank-killed.gloo.json"]


def test_a_full_disk_is_reported_and_the_runs_that_are_done_stay(
    ran: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train-faults", "--only", "cut-port", "--output", str(tmp_path)]

    def fill(place: Path, text: str) -> None:
        if place.name == "cut-port.rc.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(place))
        write_text(place, text)

    with monkeypatch.context() as patch:
        patch.setattr(results, "write_text", fill)
        assert run(command) == 3
    printed = " ".join(capsys.readouterr().err.split())
    assert "cut-port.rc.json cannot be written: No space left on device" in printed
    assert "repeating the command runs only what is missing" in printed
    assert run(command) == 0
    assert ran == [("cut-port", stack) for stack in ("gloo", "rc", "rc", "mrc")]


def test_runs_of_another_version_are_counted(
    ran: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train-faults", "--only", "cut-port", "--only", "mrc", "--output", str(tmp_path)]
    assert run(command) == 0
    place = tmp_path / "runs" / "cut-port.mrc.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"sources": "older"}))
    assert run(command) == 0
    assert "1 run" in (printed := capsys.readouterr().err)
    assert "by another version of this project" in printed


def test_without_pytorch_it_names_size_and_command(
    ran: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installation, "installed", lambda: False)
    assert run(["train-faults", "--output", str(tmp_path / "new")]) == 3
    printed = " ".join(capsys.readouterr().err.split())
    assert "PyTorch is not installed here" in printed
    assert installation.SIZE in printed
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--hosts", "2"], "2 hosts cannot be halved over two T0s, or are not 4 to 8"),
        (["--only", "cut-prot"], "no case or stack cut-prot; did you mean cut-port"),
    ],
)
def test_what_cannot_be_is_refused(words: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train-faults", *words]) == 3
    assert part in " ".join(capsys.readouterr().err.split())
