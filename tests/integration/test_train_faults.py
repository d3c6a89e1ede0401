"""`mrc train-faults` for real: a rank is killed, three go on over MRC with the weights of an uninterrupted job."""

from __future__ import annotations

import csv
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.processes import processes
from tests.waiting import until
from topologies.emulation.run_directory import DEFAULT_ROOT

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install '.[torch]'"
    ),
]

MRC = Path(sys.executable).with_name("mrc")
COMMAND = [MRC, "train-faults", "--only", "mrc", "--only", "rank-killed"]


def ranks(parent: int) -> list[int]:
    """Processes of ranks, wherever they run, of a fabric that belongs to a process."""
    return processes(b"train_faults.worker", f"MRC_FABRIC=train-faults-{parent}\0".encode())


@pytest.mark.timeout(170)
def test_three_ranks_go_on_after_the_fourth_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen([*COMMAND, "--output", tmp_path], stdout=subprocess.PIPE, text=True) as process:
        printed, _ = process.communicate()
    assert process.returncode == 0
    assert "mrc had to reconfigure in 1" in printed
    with (tmp_path / "train-faults.csv").open() as stream:
        (row,) = csv.DictReader(stream)
    assert (row["finished"], row["ranks_left"], row["rounds"], row["reconfigurations"]) == ("True", "3", "1", "1")
    times = [float(row[name]) for name in ("detected", "reconfigured", "stepped")]
    assert times == sorted(times)
    assert 0 < times[0] < 10, "known before the operations' timeout"
    assert float(row["spread"]) == 0
    assert float(row["difference"]) < 1e-9
    assert not ranks(process.pid)
    assert not (DEFAULT_ROOT / f"train-faults-{process.pid}").exists()


@pytest.mark.timeout(170)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_rank_and_no_fabric(tmp_path: Path, how: signal.Signals) -> None:
    with subprocess.Popen([*COMMAND, "--output", tmp_path], start_new_session=True) as process:
        until(lambda: len(ranks(process.pid)) == 4, "the ranks to start", timeout_s=60)
        process.send_signal(how)
    assert process.returncode != 0
    assert not ranks(process.pid)
    assert not (DEFAULT_ROOT / f"train-faults-{process.pid}").exists()
    assert not list((tmp_path / "runs").iterdir())
