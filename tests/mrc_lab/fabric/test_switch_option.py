"""The option `--switch`."""

import click
import pytest
from click.testing import CliRunner

from mrc_lab.fabric.switch_option import SwitchChoice, switch_option
from topologies.emulation.switch_kind import SwitchKind


def run(*arguments, kinds=tuple(SwitchKind)):
    @click.command()
    @click.option("--switch", type=SwitchChoice(kinds), default="embedded")
    def command(switch):
        click.echo(switch)

    return CliRunner().invoke(command, arguments)


@pytest.mark.parametrize("kind", [kind.value for kind in SwitchKind])
def test_current_kinds_are_accepted(kind):
    assert run("--switch", kind).output == f"{kind}\n"


def test_old_names_are_accepted_with_a_note():
    result = run("--switch", "shim-each")
    assert result.exit_code == 0
    assert "embedded-per-process" in result.output.splitlines()
    assert "Note: --switch shim-each is now --switch embedded-per-process." in result.output


def test_unavailable_kinds_are_refused():
    assert run("--switch", "bmv2", kinds=(SwitchKind.EMBEDDED,)).exit_code == 2


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ((), "embedded"),
        (("bmv2",), "bmv2"),
        (("embedded-per-process", "t1-0@p0=kernel", "t0-*@p1=kernel"),
         "embedded-per-process,t1-0@p0=kernel,t0-*@p1=kernel"),
    ],
)  # fmt: skip
def test_the_option_may_be_repeated(words, printed):
    @click.command()
    @switch_option("Switches.")
    def command(switch):
        click.echo(switch)

    result = CliRunner().invoke(command, [word for given in words for word in ("--switch", given)])
    assert result.output == f"{printed}\n"


@pytest.mark.parametrize("word", ["t1-0@p0=bmv2", "=kernel", "t1-0@p0="])
def test_single_switches_can_only_be_the_kernels(word):
    assert run("--switch", word).exit_code == 2
    assert run("--switch", "t1-0@p0=kernel", kinds=(SwitchKind.EMBEDDED,)).exit_code == 2
