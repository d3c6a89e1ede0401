import subprocess
import sys

import pytest

from mrc_host.verbs_types import PathEvent, PathReason, PathState, PortEvent
from mrc_lab.workloads.training.job import WorkerJob
from mrc_lab.workloads.training.sgd import TrainingPlan
from mrc_lab.workloads.training.worker import to_json


def start(tmp_path, *, job="job.json", log=None):
    arguments = ["--job", tmp_path / job, "--rank", "0", "--agent", tmp_path / "none.sock"]
    arguments += ["--rendezvous", tmp_path / "nowhere.sock", *(["--log", log] if log else [])]
    command = [sys.executable, "-m", "mrc_lab.workloads.training.worker", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("exists", [True, False])
def test_worker_errors_are_reported(tmp_path, exists):
    if exists:
        WorkerJob(TrainingPlan(1), 2, tmp_path / "data.npz", tmp_path).save(tmp_path / "job.json")
    result = start(tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("rank 0: ")
    assert ("no coordinator at" if exists else "job.json") in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_output_goes_to_the_log(tmp_path):
    result = start(tmp_path, log=tmp_path / "log")
    assert (result.stdout, result.stderr) == ("", "")
    assert "rank 0: " in (tmp_path / "log").read_text()


def test_events_are_encoded_as_json():
    event = PathEvent(5, 16, 1025, 1, PathState.GOOD, PathState.ASSUMED_BAD, PathReason.LOSS, 3)
    assert to_json(event) == {
        "time": 5, "qpn": 16, "ev": 1025, "plane": 1, "old": "good", "new": "assumed_bad", "reason": "loss",
        "first_loss_time": 3,
    }  # fmt: skip
    assert to_json(PortEvent(1, 0, True, False, b"\xfd\x00"))["peer"] == "fd00"
