"""``p4:`` in an experiment file: another program of the switches, in the cases that name it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import p4src
from mrc_lab.errors import FileError
from mrc_lab.experiments.files import load_file
from mrc_lab.experiments.running.recording import FLOW_COUNTERS
from mrc_lab.experiments.running.run_experiment import run_experiment, warnings_of
from tests.topologies.test_p4_program import SMALL

TEXT = """
fabric: {planes: 2, t0: 2, t1: 2, hosts: 4}
workload: {kind: write_bw, pairs: [h1>h3], message: 64K}
duration: 300us
variants:
  - {name: own}
  - {name: edited, p4: edited/fabric.p4}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An experiment beside an edited copy of the fabric's program: what would go over the second T1 is dropped."""
    shutil.copytree(p4src.SOURCES, tmp_path / "edited", ignore=shutil.ignore_patterns("build", "__pycache__"))
    usid = tmp_path / "edited" / "usid.p4"
    drop = "if (hdr.ipv6.dst[95:80] == 0x4001) { meta.drop_reason = DropReason.NO_USID; }"
    text = usid.read_text()
    assert text.count("usid_next.apply();") == 1
    usid.write_text(text.replace("usid_next.apply();", f"usid_next.apply(); {drop}"))
    made = tmp_path / "two.yaml"
    made.write_text(TEXT)
    return made


def test_cases_of_one_file_run_their_own_programs(file: Path) -> None:
    recordings = run_experiment(load_file(file), "sim", 1)
    lost = {name: found.flow_samples[-1, :, FLOW_COUNTERS.index("lost")].sum() for name, found in recordings.items()}
    assert lost["own"] == 0
    assert lost["edited"] > 0


def test_a_program_that_lacks_tables_is_warned_of(file: Path) -> None:
    (file.parent / "edited" / "fabric.p4").write_text(SMALL)
    (found,) = (text for text in warnings_of(load_file(file), "sim") if "has no" in text)
    assert found.startswith("edited: fabric.p4 has no adaptive_class, adaptive_route, ecmp, ecmp_seed, ")


def test_a_program_with_a_mistake_or_that_is_not_there_is_refused_before_anything_runs(file: Path) -> None:
    usid = file.parent / "edited" / "usid.p4"
    usid.write_text(usid.read_text().replace("usid_next.apply", "usid_nxt.apply"))
    with pytest.raises(FileError, match=r"two\.yaml, line 7: .*p4: .*usid\.p4:\d+:\d+: error: 'usid_nxt' is not"):
        load_file(file)
    file.write_text(TEXT.replace("edited/fabric.p4", "none.p4"))
    with pytest.raises(FileError, match=r"p4: .*none\.p4' cannot be read: No such file or directory"):
        load_file(file)
