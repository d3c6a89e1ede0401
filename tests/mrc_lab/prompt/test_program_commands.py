"""`p4 reload`: which file it notes as the source of what the switches run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mrc_lab.prompt.program_commands import ProgramCommands
from tests.topologies.test_p4_program import FABRIC, SMALL
from topologies.p4_program import P4Program, fabric_program, read_program, remember_source, source_of


class Commands(ProgramCommands):
    """The commands with a controller whose `load` a test gives."""

    def __init__(self, folder: Path, load: Callable[[P4Program], None]) -> None:
        @contextlib.contextmanager
        def controller() -> Iterator[SimpleNamespace]:
            yield SimpleNamespace(load_program=load)

        run = SimpleNamespace(program=folder)
        world: Any = SimpleNamespace(emulation=SimpleNamespace(run=run), fabric=FABRIC, controller=controller)
        self._world = world
        self.said: list[str] = []
        self._echo = self.said.append
        self._words = lambda name, line, least, most: line.split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a fabric that runs its own program."""
    fabric_program().save(tmp_path / "run")
    remember_source(tmp_path / "run", None)
    return tmp_path / "run"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    source = tmp_path / "small.p4"
    source.write_text(SMALL)
    return source


def test_the_file_of_a_program_that_runs_already_is_the_source_from_then_on(folder: Path, file: Path) -> None:
    commands = Commands(folder, lambda program: program.save(folder))
    made = read_program(file)
    first, second = (file.parent / place / "small.json" for place in ("first", "second"))
    for one in (first, second):
        one.parent.mkdir()
        one.write_text(made.json)
        one.with_suffix(".p4info.txtpb").write_text(made.p4info)
        commands.do_p4(f"reload {one}")
    assert commands.said[-1] == "the switches run small.json as it is already"
    assert source_of(folder) == second


def test_after_ctrl_c_the_source_is_that_of_what_the_controller_goes_on_to_load(folder: Path, file: Path) -> None:
    def load(program: P4Program) -> None:
        program.save(folder)
        raise KeyboardInterrupt

    commands = Commands(folder, load)
    with pytest.raises(KeyboardInterrupt):
        commands.do_p4(f"reload {file}")
    assert "the controller goes on with it" in commands.said[-1]
    commands.do_p4("")
    assert commands.said[-1] == f"the switches run small.p4 of {file}, as it is there"


def test_a_program_that_is_refused_leaves_the_source(folder: Path, file: Path) -> None:
    def load(program: P4Program) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Commands(folder, load).do_p4(f"reload {file}")
    assert source_of(folder) is None


def test_a_source_that_is_gone_is_said_to_be(folder: Path, file: Path) -> None:
    commands = Commands(folder, lambda program: program.save(folder))
    commands.do_p4(f"reload {file}")
    file.unlink()
    commands.do_p4("")
    assert commands.said[-1] == (
        f"the switches run small.p4, whose source cannot be compiled any more:\n"
        f"'{file}' cannot be read: No such file or directory"
    )
