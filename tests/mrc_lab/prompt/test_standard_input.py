"""Who reads standard input: the prompt its lines, a command what is typed for it, and nobody what is another's."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
from pathlib import Path

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.prompt import standard_input
from tests.seeds import SEED


def test_children_do_not_read_lines_of_the_prompt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("first\nsecond\n" * 10_000)  # more than one buffer
    before = os.fstat(0)
    with lines.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with standard_input.owned() as commands:
            assert commands.readline() == "first\n"
            assert subprocess.run(["cat"], capture_output=True, check=True).stdout == b""
            assert commands.read() == lines.read_text().removeprefix("first\n")
    assert os.path.samestat(os.fstat(0), before)


def test_closed_standard_input_has_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with standard_input.owned() as commands:
        assert commands.read() == ""


def shell_of_a_node(script: str) -> subprocess.CompletedProcess[str]:
    """What the shell that Mininet keeps for a node makes of a script; it is interactive, so errors do not end it."""
    return subprocess.run(
        ["bash", "--norc", "--noediting", "-is"], input=script, capture_output=True, text=True, check=False,
        start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("cat", ""),
        ("cat; echo 'a  b' \"$((6 * 7))\"", "a  b 42\n"),
        ("echo a\necho b", "a\nb\n"),
        ("echo one; echo 'open", ""),
        ("cat <<END", ""),
        ("# a remark", ""),
    ],
)
def test_a_shell_carries_out_each_command_whole_and_goes_on(command: str, printed: str) -> None:
    script = f"{standard_input.shell_line(command, '')}\necho next\n"
    shell = shell_of_a_node(script)
    assert shell.stdout == f"{printed}next\n"


def test_random_commands_leave_the_next_line_alone() -> None:
    seed = SEED
    print(f"seed {seed}")
    rng = random.Random(seed)
    pieces = [
        "echo ",
        "cat",
        " ",
        "'",
        '"',
        "\\",
        "$(",
        "`",
        ")",
        "(",
        "{",
        "<<",
        "<",
        "|",
        "\n",
        "&",
        ";",
        "#",
        "é",
        "\t",
    ]
    for _ in range(60):
        command = "".join(rng.choices(pieces, k=rng.randint(1, 8))).strip() or ":"
        script = f"{standard_input.shell_line(command, '')}\necho the next line\n"
        shell = shell_of_a_node(script)
        assert shell.stdout.endswith("the next line\n"), shlex.quote(command)


def test_a_background_command_takes_no_keys_from_the_prompt() -> None:
    assert standard_input.shell_line("cat", "/dev/pts/7").endswith("</dev/pts/7")
    assert standard_input.shell_line("cat &", "/dev/pts/7").endswith("</dev/null")


def test_a_command_that_a_terminal_would_cut_off_is_refused() -> None:
    standard_input.shell_line("x" * 4_000, "")
    with pytest.raises(ExperimentError, match="has 5000 characters, and a node's shell reads at most 4095 in a line"):
        standard_input.shell_line("x" * 5_000, "")
    with pytest.raises(ExperimentError, match="at most 4095"):
        standard_input.shell_line("é" * 2_100, "")
