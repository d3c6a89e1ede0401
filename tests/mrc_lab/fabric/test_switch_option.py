"""The option `--switch`."""

import click
import pytest
from click.testing import CliRunner

from mrc_lab.fabric.switch_option import SwitchChoice
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
