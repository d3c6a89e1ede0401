"""Every prompt command of the pages, and what they run beside the prompt, in their order on one fabric."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, blocks

pytestmark = pytest.mark.root

NAME = f"docs{os.getpid() % 10000}"
_MARK = ">>> "
_FAILED = "DOC-COMMAND-FAILED"


def directions_of(block: Block) -> list[tuple[str, str]]:
    """(what the page says, the prompt's line for it) of each command; beside the prompt a block is one command."""
    if block.kind == "mrc":
        return [(command, command) for command in block.commands()]
    program = block.text.replace("/run/mrc/demo/", f"/run/mrc/{NAME}/").replace("--fabric demo", f"--fabric {NAME}")
    interpreter = [sys.executable, "-c"] if block.kind.startswith("python") else ["sh", "-e", "-c"]
    return [(block.text, f"sh {shlex.join([*interpreter, program])} || echo {_FAILED}")]


@pytest.mark.timeout(600)
def test_prompt_commands_on_the_pages_work_on_a_fabric() -> None:
    command = [str(Path(sys.executable).with_name("mrc")), "shell", "--name", NAME, "--planes", "2"]
    places = []
    for block in blocks("mrc", "sh fabric", "python fabric"):
        for command_line, line in directions_of(block):
            places.append(f"{block} {command_line.splitlines()[0]}")
            command += ["-c", f"sh echo {shlex.quote(_MARK + places[-1])}", "-c", line]
    for command_line in ("write h1 h3 16M", "evs h1", "links"):  # of the examples that bring up a fabric of their own
        command += ["-c", command_line]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    result = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    printed = result.stdout
    for part in printed.split(_MARK)[1:]:
        assert "*** Unknown command" not in part, part
        assert _FAILED not in part, part
        assert "Traceback" not in part, part
        assert " 0 received" not in part, part
    assert printed.count(_MARK) == len(places), printed
    assert result.returncode == 0, printed
