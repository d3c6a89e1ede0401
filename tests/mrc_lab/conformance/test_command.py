"""``mrc conform`` without interfaces, where the NIC is one in memory, and what it refuses."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mrc_host.verbs.errors import AgentLostError
from mrc_lab.cli.main import run as mrc
from mrc_lab.conformance.nic_under_test import VerbsNic


def test_all_rules_are_kept_and_packets_written_with_their_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mrc(["conform", "--seeds", "1", "--results", str(tmp_path / "r")]) == 0
    printed = capsys.readouterr().out
    assert "41 of 41 rules kept" in printed
    verdicts = json.loads((tmp_path / "r" / "verdicts.json").read_text())
    assert len(verdicts) == printed.count("kept   ")
    (duplicates,) = (one for one in verdicts if one["name"] == "duplicates")
    capture = tmp_path / "r" / duplicates["capture"]
    command = ("tshark", "-r", str(capture), "-T", "fields", "-e", "frame.comment")
    comments = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(comments) == duplicates["packets"]
    assert "line 3: < data psn=0 a" in comments
    assert any(comment.startswith("received: sack ") for comment in comments)


def test_scripts_of_one_rule_are_listed_and_played(capsys: pytest.CaptureFixture[str]) -> None:
    assert mrc(["conform", "--rule", "R2.9", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert mrc(["conform", "--rule", "R2.9"]) == 0
    assert "1 of 1 rules kept" in capsys.readouterr().out


def test_a_script_of_the_users_decides_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "mine.script"
    script.write_text("rule R2.8\ntitle mine\n< data psn=0 a\n> sack cack=1 within 1ms\n")
    assert mrc(["conform", "--script", str(script), "--rule", "R2.8"]) == 1
    printed = capsys.readouterr().out
    assert "BROKEN R2.8   mine (mine)" in printed
    assert "0 of 1 rules kept: R2.8 broken" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rule", "R9.9"), "no script is for rule R9.9"),
        (("--agent", "x.sock"), "are for a NIC at interfaces"),
        (("--interface", "lo"), "needs an application beside it"),
        (("--interface", "lo", "--agent", "x", "--application", "y"), "needs an application beside it"),
        (("--interface", "lo", "--interface", "lo", "--agent", "x"), "an interface is named twice"),
        (("--interface", "lo", "--agent", "x", "--config", "/nonexistent.json"), "Cannot read the configuration"),
        (("--interface", "lo", "--application", "/nonexistent/program"), "cannot be run"),
        (("--script", "/nonexistent.script"), "cannot be read"),
        (("--rule", "R2.9", "--results", "/proc/nothing"), "/proc/nothing cannot be written"),
    ],
)
def test_impossible_options_are_refused(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mrc(["conform", *words]) == 3
    assert message in capsys.readouterr().err


def test_a_program_that_ends_is_no_verdict_and_what_was_found_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    disconnect, left = VerbsNic.disconnect, [3]

    def dies_after_three(nic: VerbsNic) -> None:
        disconnect(nic)
        left[0] -= 1
        if left[0] < 0:
            raise AgentLostError("the agent is gone")

    monkeypatch.setattr(VerbsNic, "disconnect", dies_after_three)
    assert mrc(["conform", "--results", str(tmp_path)]) == 3
    printed = capsys.readouterr()
    assert "the agent is gone" in printed.err
    assert "BROKEN" not in printed.out
    assert len(json.loads((tmp_path / "verdicts.json").read_text())) == printed.out.count("kept   ") > 0
