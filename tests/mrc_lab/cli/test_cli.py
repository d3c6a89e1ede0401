import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mrc_lab.cli.main import group, run
from mrc_lab.command_table import COMMANDS
from mrc_lab.fabric import find_fabric
from tests.mrc_lab.experiments.files.texts import SMALL

MRC = Path(sys.executable).with_name("mrc")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_describes_each_command_and_gives_an_example(command):
    result = CliRunner().invoke(group, [command, "--help"])
    assert result.exit_code == 0
    assert re.search(rf"Example: (sudo )?mrc {command}\b", result.output)


def test_top_level_help_lists_exit_statuses():
    result = CliRunner().invoke(group, ["--help"])
    assert result.exit_code == 0
    assert "Exit statuses" in result.output


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["web", "lab", "--port", "80"], "Did you mean --listen?"),
        (["metrics", "--bind", "localhost"], "Did you mean --listen?"),
        (["run", "x.yaml", "--dry-run"], "Did you mean --check?"),
        (["run", "x.yaml", "--sed", "3"], "Did you mean --seed or --seeds?"),
    ],
)
def test_an_option_of_other_programs_is_answered_with_ours(words, hint, capsys):
    assert run(words) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_an_unknown_option_prints_a_message_and_exits_with_status_2(command, capsys):
    assert run([command, "--no-such-option"]) == 2
    printed = capsys.readouterr().err
    assert "No such option" in printed
    assert f"Try 'mrc {command} --help'" in printed


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["demo", "--hosts", "3"], 3, "3 hosts cannot be spread evenly over 2 T0 groups"),
        (["demo", "--steps", "3"], 3, "3 steps are too few"),
        (["demo", "--t1", "1"], 3, "another way round"),
        (["demo", "--rate", "fast"], 2, "such as 100G"),
        (["demo", "--switch", "none"], 2, "Invalid value"),
        (["demo", "--name", "Not A Name"], 3, "fabric name"),
        (["shell", "--planes", "9"], 3, "planes is 9"),
        (["up", "--hosts", "3"], 3, "3 hosts cannot be spread evenly over 2 T0 groups"),
        (["up", "--name", "Not A Name"], 3, "fabric name"),
        (["down", "never-was"], 3, "there is no fabric never-was" if os.geteuid() == 0 else "root"),
        (["down", "../.."], 3, "no name of a fabric" if os.geteuid() == 0 else "root"),
        (["clean", "--name", ".."], 3, "no name of a fabric" if os.geteuid() == 0 else "root"),
        (["fault", "list", "--fabric", ".."], 3, "no name of a fabric"),
        (["down", "one", "two"], 2, "unexpected extra argument"),
        (["clean", "now", "then"], 2, "unexpected extra argument"),
        (["doctor", "now"], 2, "unexpected extra argument"),
        (["run"], 2, "Missing argument"),
        (["run", "nowhere.yaml"], 3, "nowhere.yaml: cannot be read: No such file"),
        (["run", "/"], 3, "cannot be read"),
        (["run", "nowhere.yaml", "--backend", "real"], 2, "is not one of"),
        (["sweep"], 2, "Missing argument"),
        (["sweep", "nowhere.yaml"], 3, "nowhere.yaml: cannot be read: No such file"),
        (["sweep", "nowhere.yaml", "--seeds", "9-1"], 2, "ends before it begins"),
        (["sweep", "nowhere.yaml", "--set", "planes"], 3, "write a key and its values"),
        (["compare", "nowhere", "nowhere"], 3, "summary.json cannot be read"),
        (["paper", "--only", "fig99"], 3, "no figure is called fig99"),
        (["rank", "--only", "incast8"], 3, "nothing that is ranked is called incast8; did you mean incast-8?"),
        (["train-faults", "--only", "cut-prot"], 3, "no case or stack cut-prot; did you mean cut-port?"),
        (["train-faults", "--timeout", "0"], 2, "Invalid value for '--timeout'"),
        (["plan"], 2, "Give --nics for a design, or --result"),
        (["plan", "--hosts", "few"], 2, "Invalid value for '--nics' / '--hosts'"),
        (["plan", "--port", "800G"], 2, "--port-speed"),
        (["plan", "--nics", "few"], 2, "Invalid value"),
        (["plan", "--nics", "64", "--planes", "0"], 2, "less than 1"),
        (["plan", "--nics", "64", "--tiers", "4"], 3, "1 to 3 tiers"),
        (["plan", "--nics", "1000000", "--planes", "1"], 3, "no such design carries 1,000,000 NICs"),
        (["plan", "--nics", "64", "--parts", "nowhere.yaml"], 3, "nowhere.yaml: cannot be read"),
        (["completion", "csh"], 2, "is not one of"),
        (["walk"], 2, "No such command 'walk'."),
        (["swep"], 2, "No such command 'swep'. Did you mean sweep or web?"),
        (["links", "lab"], 2, 'It is one of the prompt: mrc shell [FABRIC] -c "links t0-0:t1-*@p1"'),
        (["--no-such-option"], 2, "No such option"),
        (["fault", "t0-0:t1-0@p0", "down"], 2, "mrc fault add [FABRIC] "),
        (["demo", "--hosts"], 2, "requires an argument"),
    ],
)
def test_an_error_prints_a_message_and_sets_the_status(arguments, status, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == status
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed
    assert list(tmp_path.iterdir()) == []


def test_an_unexpected_exception_prints_a_message(capsys, monkeypatch):
    def fail(*_args, **_kwargs):
        raise ZeroDivisionError("seven by nothing")

    monkeypatch.setattr("mrc_lab.demo.settings.DemoSettings.with_enough_steps", fail)
    assert run(["demo"]) == 3
    assert "mrc: seven by nothing" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        run(["--traceback", "demo"])


def test_the_version_is_printed(capsys):
    assert run(["--version"]) == 0
    assert "mrc, version" in capsys.readouterr().out


def test_an_unusable_result_directory_is_refused_before_the_run(tmp_path, capsys):
    file = tmp_path / "trial.yaml"
    file.write_text(SMALL)
    assert run(["run", str(file), "--results", str(file)]) == 3
    assert "cannot be written" in capsys.readouterr().err


def test_plan_prints_json_on_request(capsys):
    assert run(["plan", "--nics", "65536", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = {(design["tiers"], design["planes"]): design for design in found["designs"]}
    assert names[2, 8]["switches_per_nic"] == pytest.approx(0.6 * names[3, 1]["switches_per_nic"])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell, capsys):
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_MRC_COMPLETE={shell}_complete" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_completion_knows_subcommands_and_options(capsys, monkeypatch):
    monkeypatch.setenv("_MRC_COMPLETE", "bash_complete")
    for words, at, expected in (("mrc sw", 1, "sweep"), ("mrc plan --ni", 2, "--nics"), ("mrc completion z", 2, "zsh")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(at))
        with pytest.raises(SystemExit):
            run([])
        assert f"plain,{expected}" in capsys.readouterr().out.split()


def complete_in_bash(line, breaks):
    """What bash offers at the end of a line; its own idea of words is not asked for."""
    script = subprocess.run([MRC, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    ask = 'COMP_LINE=$1 COMP_POINT=${#1}; compopt() { echo "($@)"; }; _mrc_completion "$2"; echo "${COMPREPLY[@]}"'
    command = ["bash", "-c", f"{script}\n{ask}", "bash", line, MRC]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "COMP_WORDBREAKS": breaks}
    )
    assert not done.stderr
    return done.stdout.split()


def test_bash_completion_matches_its_word_splitting():
    assert complete_in_bash("mrc sw", " :@") == ["sweep"]
    assert complete_in_bash("mrc completion ", " :@") == ["bash", "zsh", "fish"]
    assert complete_in_bash("mrc run ", " :@")[0] == "(-o"


def test_bash_completes_names_with_colons(monkeypatch, tmp_path):
    stand_in = tmp_path / "mrc"
    stand_in.write_text(
        '#!/bin/sh\necho "$COMP_WORDS|$COMP_CWORD" >&2\nprintf "plain,t0-0:t1-0@p0\\nplain,t0-0:t1-1@p0\\n"\n'
    )
    stand_in.chmod(0o755)
    script = subprocess.run([MRC, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    for breaks, typed, offered in (
        (" :@", "t0-0:", ["t1-0@p0", "t1-1@p0"]),
        (" :@", "t0-0:t1-0@", ["p0", "t0-0:t1-1@p0"]),
        (" ", "t0-0:", ["t0-0:t1-0@p0", "t0-0:t1-1@p0"]),
    ):
        ask = 'COMP_LINE=$1 COMP_POINT=${#1}; _mrc_completion "$2"; echo "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "-c", f"{script}\nCOMP_WORDBREAKS='{breaks}'\n{ask}", "bash", f"mrc fault add {typed}", stand_in],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stderr == f"mrc fault add {typed}|3\n"
        assert done.stdout.split() == offered


@pytest.mark.parametrize("command", ["demo", "shell", "clean", "up", "down"])
def test_without_root_a_message_says_so(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(find_fabric, "in_state", lambda state: ())  # also while other tests have fabrics up
    assert run([command]) == 3
    printed = capsys.readouterr().err
    assert "root" in printed
    assert "sudo" in printed
    assert "Traceback" not in printed
    assert list(tmp_path.iterdir()) == []


def test_a_command_imports_only_what_it_needs():
    """So that `mrc up` and completion at a shell are not slowed by every other command."""
    code = (
        "import sys; from mrc_lab.cli.main import run; status = run(['up', '--help']);"
        "print(status, sorted({'asyncio', 'grpc', 'numpy', 'yaml'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"
