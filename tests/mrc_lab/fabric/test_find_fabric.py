"""Which fabric a command means, and what users other than root are shown."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mrc_lab.cli.fabric_argument import fabric_name
from mrc_lab.cli.main import run
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.find_fabric import find_controller, find_fabric, in_state, to_take_down
from topologies.emulation.run_directory import FabricState, RunDirectory

NOBODY = 65534


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder of run directories that other users can get into, as /run/mrc."""
    folder = Path(tempfile.mkdtemp(prefix="mrc-fabrics-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def up(name: str, root: Path) -> Iterator[RunDirectory]:
    run = RunDirectory(name, root)
    with run.locked(), socket.socket(socket.AF_UNIX) as controller:
        run.fabric_file.write_text("name: x")
        controller.bind(str(run.controller_socket))
        run.controller_socket.chmod(0o600)
        controller.listen()
        yield run


def left_over(name: str, root: Path) -> RunDirectory:
    with up(name, root) as run:
        return run


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_leftover_is_not_selected_as_the_only_fabric(root: Path) -> None:
    left_over("old", root)
    with pytest.raises(ExperimentError, match="No fabric is up"):
        find_fabric(None, root)
    with up("new", root) as new:
        assert find_fabric(None, root) == find_controller(None, root) == new
        with pytest.raises(ExperimentError, match="old is not up"):
            find_fabric("old", root)
        with up("two", root), pytest.raises(ExperimentError, match="Several") as error:
            find_fabric(None, root)
        assert error.value.hint == "Choose one with --fabric: new, two."


def test_down_without_a_name_prefers_the_only_running_fabric(root: Path) -> None:
    with pytest.raises(ExperimentError, match="No fabric is up"):
        to_take_down(None, root)
    left_over("old", root)
    assert to_take_down(None, root) == "old"
    with up("new", root):
        assert to_take_down(None, root) == "new"
        assert to_take_down("old", root) == "old"
        with up("two", root), pytest.raises(ExperimentError, match="Several") as error:
            to_take_down(None, root)
    assert error.value.hint == "Say which: new, two."


def test_a_fabric_of_another_user_is_reported_as_such(root: Path) -> None:
    left_over("old", root)
    with up("lab", root) as lab:
        lab.path.chmod(0o700)
        (root / "old").chmod(0o700)
        with as_nobody():
            assert in_state(FabricState.UP, root) == ("lab",)
            assert in_state(FabricState.UNKNOWN, root) == ("old",)
            for name in (None, "lab"):
                with pytest.raises(ExperimentError, match="Fabric lab is up, but belongs to another user") as error:
                    find_fabric(name, root)
                assert "sudo" in error.value.hint
            with pytest.raises(ExperimentError, match="Fabric old belongs to another user"):
                find_fabric("old", root)


def test_a_member_of_the_group_may_use_the_nics_but_not_the_controller(root: Path) -> None:
    with up("lab", root) as lab:
        lab.path.chmod(0o710)
        os.chown(lab.path, 0, NOBODY)
        os.setegid(NOBODY)
        try:
            with as_nobody():
                assert find_fabric(None, root) == lab
                with pytest.raises(ExperimentError, match="another user"):
                    find_controller(None, root)
        finally:
            os.setegid(0)


@pytest.mark.parametrize("command", [["map"], ["fault", "list"], ["fault", "watch"], ["shell"], ["down"]])
@pytest.mark.parametrize("words", [["nosuch"], ["--fabric", "nosuch"]])
def test_every_command_accepts_the_name_positionally_and_as_option(
    command: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    if command[0] in ("shell", "down") and os.geteuid() != 0:
        pytest.skip("needs root")
    assert run([*command, *words]) == 3
    assert "fabric nosuch" in capsys.readouterr().err.lower()


def test_only_one_fabric_can_be_named() -> None:
    @click.command()
    @fabric_name("all")
    def command(name: str | None) -> None:
        click.echo(name)

    for words in (["lab"], ["--fabric", "lab"], ["--name", "lab"], ["lab", "--name", "lab"]):
        assert CliRunner().invoke(command, words).output == "lab\n"
    assert CliRunner().invoke(command, []).output == "\n"
    twice = CliRunner().invoke(command, ["lab", "--fabric", "demo"])
    assert (twice.exit_code, "two fabrics are named, lab and demo" in twice.output) == (2, True)
