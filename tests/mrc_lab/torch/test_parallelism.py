"""Tensor, pipeline and fully sharded data parallelism give on the backend mrc what one process gives."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")

from mrc_common import children
from tests.mrc_host.nics_in_memory import nics_in_memory
from tests.mrc_lab.torch import parallel_program


@pytest.fixture(scope="module")
def nics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("nics")
    with nics_in_memory(folder, parallel_program.WORLD):
        yield folder


@pytest.mark.parametrize("way", sorted(parallel_program.WAYS))
def test_a_model_split_over_ranks_learns_what_the_whole_one_does(nics: Path, way: str) -> None:
    ranks = [
        children.popen(
            children.python(parallel_program.__name__, way, str(rank), str(nics)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(parallel_program.WORLD)
    ]
    printed = [rank.communicate()[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * len(ranks), "\n".join(printed)
