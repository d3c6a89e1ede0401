"""``mrc train`` refuses options that do not go together, and says how to install what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_lab.cli.main import run
from mrc_lab.torch_jobs import command, installation


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text("")
    return str(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--group-size", "2"], "--group-size, --restarts and --min-groups go with --elastic torchft"),
        (["--restarts", "0"], "--group-size, --restarts and --min-groups go with --elastic torchft"),
        (["--min-groups", "2"], "--group-size, --restarts and --min-groups go with --elastic torchft"),
        (["--elastic", "torchft", "--port", "29500"], "--port does not go with --elastic torchft"),
        (["--elastic", "ray"], "Invalid value for '--elastic'"),
        (["--elastic", "torchft", "--restarts", "-1"], "Invalid value for '--restarts'"),
        (["--elastic", "torchft", "--group-size", "0"], "Invalid value for '--group-size'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    script: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", *options, script]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_without_torchft_it_names_size_and_command(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command.os, "geteuid", lambda: 0)
    monkeypatch.setattr(installation, "installed", lambda: True)
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda _name: None)
    assert run(["train", "--elastic", "torchft", script]) == 3
    printed = " ".join(capsys.readouterr().err.split())
    assert f"torchft is not installed here Install it ({installation.TORCHFT_SIZE})" in printed.replace(". ", " ")
    assert "'torchft>=0.2,<0.3'" in printed
