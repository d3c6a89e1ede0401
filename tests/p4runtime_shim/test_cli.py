"""The command line up to the point where something is opened; test_switch_process.py has the rest."""

import pytest

from p4runtime_shim import cli
from p4runtime_shim.cli import main

BMV2 = (
    *("-h", "-i", "-L", "-v", "--help", "--interface", "--pcap", "--use-files", "--packet-in", "--thrift-port"),
    *("--device-id", "--nanolog", "--log-console", "--log-file", "--log-level", "--log-flush", "--log-file-max-size"),
    *("--log-file-max-files", "--notifications-addr", "--restore-state", "--dump-packet-data", "--version"),
    *("--json-version", "--no-p4", "--max-port-count", "--load-modules", "--disable-swap", "--grpc-server-addr"),
    *("--grpc-server-ssl", "--grpc-server-cacert", "--grpc-server-cert", "--grpc-server-key"),
    *("--grpc-server-with-client-auth", "--cpu-port", "--drop-port", "--dp-grpc-server-addr", "--priority-queues"),
    *("--max-mc-groups", "--max-l1-entries", "--max-l2-entries"),
)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give a program"),
        (["--no-p4", "x.json"], "not both"),
        (["--no-p4", "-i", "eth0"], "PORT@INTERFACE"),
        (["--no-p4", "-i", "1@a", "-i", "1@b"], "port 1 is given twice"),
        (["--no-p4", "--rate", "fast"], "must be a rate such as 100G"),
        (["--no-p4", "--priority-queues", "9"], "1 to 8"),
        (["--no-p4", "--grpc-server-addr", "nowhere"], "HOST:PORT"),
        (["--no-p4", "--", "--cpu-port", "600"], "600"),
        (["--no-p4", "--packet-in-rate", "-1"], "--packet-in-rate is -1"),
        (["--trace", "program.json"], "give a program"),  # FILE of --trace; it is not opened
        (["--config", "/nonexistent.yaml"], "cannot be read"),
        (["--config", "x.yaml", "--packet-in-rate", "5"], "--packet-in-rate belongs"),
        (["--config", "x.yaml", "-i", "1@a"], "--interface belongs"),
        (["--config", "x.yaml", "--device-id", "1"], "--device-id belongs"),
        (["--config", "x.yaml", "p.json"], "program belongs"),
        (["--no-p4", "--", "--grpc-server-ssl"], "needs --grpc-server-cert"),
        (["--no-p4", "--restore-state", "x"], "let the controller write it again"),
        (["--no-p4", "--drop-port", "3"], "drop port is 511"),
        (["--no-p4", "--log-file", "/nonexistent/log"], "cannot write the log"),
    ],
)
def test_mistakes_print_one_message_and_exit_with_status_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "example:" in capsys.readouterr().out


def test_every_bmv2_option_is_accepted() -> None:
    """Done, taken without effect, or refused with a reason. The list is that of `simple_switch_grpc --help`."""
    # argparse has no public list of the options that it takes; its help leaves out those without effect
    known = {option for action in cli.argument_parser()._actions for option in action.option_strings}
    assert set(BMV2) <= known


def test_options_without_effect_are_noted_once(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--no-p4", "--thrift-port", "9090", "--nanolog", "ipc:///tmp/x", "--log-flush", "--drop-port", "511"]
    options = cli.argument_parser().parse_args(arguments)
    assert [message.partition(":")[0] for message in options.without_effect] == [
        "--thrift-port",
        "--nanolog",
        "--log-flush",
    ]


@pytest.mark.parametrize("option", ["--version", "--json-version"])
def test_versions_are_printed(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([option])
    assert caught.value.code == 0
    assert capsys.readouterr().out.strip()


def test_an_unknown_option_exits_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--no-p4", "--fast"])
    assert caught.value.code == 2
