"""The command line up to the point where something is opened; test_switch_process.py has the rest."""

import pytest

from p4runtime_shim.cli import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give a program"),
        (["--no-p4", "x.json"], "keep one"),
        (["--no-p4", "-i", "eth0"], "PORT@INTERFACE"),
        (["--no-p4", "-i", "1@a", "-i", "1@b"], "port 1 is given twice"),
        (["--no-p4", "--rate", "fast"], "bits per second"),
        (["--no-p4", "--priority-queues", "9"], "1 to 8"),
        (["--no-p4", "--grpc-server-addr", "nowhere"], "HOST:PORT"),
        (["--no-p4", "--", "--cpu-port", "600"], "600"),
        (["--no-p4", "--packet-in-rate", "-1"], "--packet-in-rate is -1"),
        (["--trace", "program.json"], "give a program"),  # FILE of --trace; it is not opened
        (["--config", "/nonexistent.yaml"], "cannot read"),
        (["--config", "x.yaml", "--packet-in-rate", "5"], "--packet-in-rate belongs"),
        (["--config", "x.yaml", "-i", "1@a"], "--interface belongs"),
        (["--config", "x.yaml", "--device-id", "1"], "--device-id belongs"),
        (["--config", "x.yaml", "p.json"], "program belongs"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "example:" in capsys.readouterr().out


def test_an_unknown_option_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--no-p4", "--fast"])
    assert caught.value.code == 2
