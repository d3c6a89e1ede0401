"""Lives of a queue pair through libibverbs and libmrc: what one was given says nothing of the next.

A program gives a queue pair random attributes in several lives, and a new one only those of the last life. Then both
must be alike: for the application, and in the NIC.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.mrc_host.libibverbs.build_program import MRC_PROGRAM, PROGRAM, build_program, needs_libraries
from tests.mrc_host.nics_in_memory import nics_in_thread
from tests.seeds import SEED

pytestmark = needs_libraries
RUNS = 10


@pytest.mark.parametrize("sources", [PROGRAM, MRC_PROGRAM], ids=["libibverbs", "libmrc"])
def test_a_queue_pair_of_the_c_libraries_forgets_earlier_lives(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, sources: Path
) -> None:
    program = build_program(tmp_path_factory, sources)
    with nics_in_thread(tmp_path, 2) as hosts:
        for seed in range(SEED, SEED + RUNS):
            print("seed", seed)
            words = [str(program), "lives", *map(str, hosts.paths)]
            with subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "SEED": str(seed)}
            ) as run:
                assert run.stdout is not None
                assert run.stdout.readline() == "ready\n"
                old, new = hosts.queue_pairs()
                run.communicate("\n")
            assert run.returncode == 0
            assert old == new


@pytest.mark.parametrize("sources", [PROGRAM, MRC_PROGRAM], ids=["libibverbs", "libmrc"])
def test_a_queue_pair_takes_writes_only_with_the_access_flag(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, sources: Path
) -> None:
    program = build_program(tmp_path_factory, sources)
    with nics_in_thread(tmp_path, 2) as hosts:
        run = subprocess.run(
            [program, "access_flags", *hosts.paths], capture_output=True, text=True, timeout=60, check=False
        )
    assert run.returncode == 0, run.stderr


def test_completions_of_an_earlier_life_that_come_late_change_nothing_of_the_present_one(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program = build_program(tmp_path_factory)
    with nics_in_thread(tmp_path, 2) as hosts:
        run = subprocess.run(
            [program, "flushed_late", *hosts.paths], capture_output=True, text=True, timeout=60, check=False
        )
    assert run.returncode == 0, run.stderr
