"""The page's example runs and says what it promises."""

import re
import subprocess
import sys
from pathlib import Path

from simulation.faults import Faults
from topologies.faults import KINDS

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "simulation.md").read_text("utf-8")


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_example_runs_with_the_same_result_twice():
    (code,) = re.findall(r"```python anywhere\n(.*?)```", PAGE, re.DOTALL)
    first = run(sys.executable, "-c", code)
    assert re.fullmatch(r"arrived after \d+\.\d us, \d+ packets lost, trace [0-9a-f]{32}\n", first)
    assert run(sys.executable, "-c", code) == first


def test_the_command_on_the_page_runs():
    (command,) = re.findall(r"^python -m tests.swarm --seed \d+$", PAGE, re.MULTILINE)
    assert "data packets" in run(sys.executable, *command.split()[1:])


def test_every_fault_named_on_the_page_exists():
    paragraph = PAGE.partition("`world.faults` has")[2].partition("Each method takes")[0]
    names = re.findall(r"`([a-z_]+)`", paragraph)
    assert len(names) > 10
    assert set(KINDS) <= set(names)
    assert set(names) - {"id"} <= {*KINDS, *dir(Faults)}
