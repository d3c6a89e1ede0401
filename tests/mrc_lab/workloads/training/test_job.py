from pathlib import Path

from mrc_host.verbs_types import QpAttributes, QpType
from mrc_lab.workloads.training.job import WorkerJob
from mrc_lab.workloads.training.sgd import TrainingPlan


def test_a_job_survives_saving_and_loading(tmp_path):
    job = WorkerJob(
        plan=TrainingPlan(steps=7, hidden=(3, 4, 5), seed=9),
        world=3,
        data=Path("/some/data.npz"),
        output=tmp_path,
        qp_type=QpType.RC,
        attributes=QpAttributes(retry_count=255),
        pattern_every=0,
    )
    job.save(tmp_path / "job.json")
    assert WorkerJob.load(tmp_path / "job.json") == job


def test_the_ring_fits_gradients_and_patterns():
    job = WorkerJob(TrainingPlan(1), 4, Path("d"), Path("o"), pattern_bytes=1000)
    assert job.ring_settings(3999).max_bytes == 4000
    assert job.ring_settings(8000).max_bytes == 8000
