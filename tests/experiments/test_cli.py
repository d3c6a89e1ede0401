import os

import pytest
from click.testing import CliRunner

from experiments.cli.main import group, run


@pytest.mark.parametrize("command", [[], ["demo"], ["shell"], ["clean"], ["doctor"]])
def test_help_says_what_it_does_and_gives_an_example(command):
    result = CliRunner().invoke(group, [*command, "--help"])
    assert result.exit_code == 0
    assert "Example: sudo mrc" in result.output or not command
    assert "Exit statuses" in result.output or command


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["demo", "--hosts", "3"], 3, "3 hosts cannot be spread evenly over 2 T0 groups"),
        (["demo", "--steps", "3"], 3, "3 steps are too few"),
        (["demo", "--t1", "1"], 3, "another way round"),
        (["demo", "--rate", "fast"], 2, "such as 40M"),
        (["demo", "--switch", "none"], 2, "Invalid value"),
        (["demo", "--name", "Not A Name"], 3, "fabric name"),
        (["shell", "--planes", "9"], 3, "planes is 9"),
        (["walk"], 2, "No such command"),
        (["demo", "--hosts"], 2, "requires an argument"),
    ],
)
def test_an_error_is_a_sentence_and_a_status(arguments, status, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == status
    printed = capsys.readouterr().err
    assert sentence in printed
    assert "Traceback" not in printed
    assert list(tmp_path.iterdir()) == []


def test_an_unexpected_error_is_still_a_sentence(capsys, monkeypatch):
    def fail(*_args, **_kwargs):
        raise ZeroDivisionError("seven by nothing")

    monkeypatch.setattr("experiments.demo.settings.DemoSettings.with_enough_steps", fail)
    assert run(["demo"]) == 3
    assert "mrc: seven by nothing" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        run(["--traceback", "demo"])


def test_the_version_is_printed(capsys):
    assert run(["--version"]) == 0
    assert "mrc, version" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["demo", "shell", "clean"])
def test_without_root_one_sentence_says_so(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert run([command]) == 3
    printed = capsys.readouterr().err
    assert "root" in printed
    assert "sudo" in printed
    assert "Traceback" not in printed
    assert list(tmp_path.iterdir()) == []
