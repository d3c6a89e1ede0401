"""The demo installs PyTorch, after naming its size, where a fabric can be brought up; or it says how to."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from mrc_lab.cli.main import run
from mrc_lab.errors import ExperimentError
from mrc_lab.torch_jobs import installation
from topologies.emulation import requirements
from topologies.emulation.errors import RequirementError


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """PyTorch is not there; commands that are run are noted instead, and change nothing."""
    commands: list[Any] = []

    def note(command: Any, **_options: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(installation, "installed", lambda: False)
    monkeypatch.setattr(requirements, "check", lambda **_options: None)
    monkeypatch.setattr(installation.children, "run", note)
    return commands


def test_told_not_to_the_demo_names_size_and_command_and_installs_nothing(
    absent: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo", "--job", "torch", "--no-install-torch"]) == 3
    printed = " ".join(capsys.readouterr().err.split())
    assert "PyTorch is not installed here" in printed
    assert "200 MB to download, 900 MB on disk" in printed
    assert "-m pip install --disable-pip-version-check 'torch>=2.13,<2.15' --index-url" in printed
    assert "without --no-install-torch" in printed
    assert not absent


def test_the_demo_says_how_large_pytorch_is_and_installs_it(
    absent: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo", "--job", "torch"]) == 3, "pip has failed"
    printed = capsys.readouterr()
    assert (
        printed.out
        == f"PyTorch is missing: installing its CPU build ({installation.SIZE}), which takes some minutes.\n"
    )
    assert "pip could not install PyTorch" in printed.err
    assert absent[0][1:5] == ("-I", "-m", "pip", "install")


def test_nothing_is_installed_for_who_cannot_bring_up_a_fabric(
    absent: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_options: object) -> None:
        raise RequirementError("Bringing up a fabric needs root: run the same command with sudo.")

    monkeypatch.setattr(requirements, "check", refuse)
    assert run(["demo", "--job", "torch"]) == 3
    assert "needs root" in capsys.readouterr().err
    assert not absent


def test_what_root_installs_into_a_users_environment_is_the_users(
    absent: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(installation.os, "geteuid", lambda: 0)
    monkeypatch.setattr(installation.sys, "prefix", str(tmp_path))
    monkeypatch.setattr(installation.os, "stat", lambda path: type("Stat", (), {"st_uid": 1000, "st_gid": 1001}))
    with pytest.raises(ExperimentError, match="pip could not install PyTorch"):
        installation.install_torch()
    assert absent[1][-3:] == ("--from=0", "1000:1001", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--install-torch"], "--install-torch and --no-install-torch go with --job torch"),
        (["--no-install-torch"], "--install-torch and --no-install-torch go with --job torch"),
        (["--job", "torch", "--batch", "32"], "--batch does not apply to --job torch"),
        (["--job", "torch", "--seed", "2"], "--seed does not apply to --job torch"),
        (["--job", "jax"], "Invalid value for '--job'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
