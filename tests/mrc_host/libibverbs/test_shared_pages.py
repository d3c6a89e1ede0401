"""Pages that are shared with a NIC: many regions, forks from any stack, anything in random order; and with sanitizers.

`pages_program/pages_test.c` has the cases. It is linked with the sources that move pages, and counts system calls.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.mrc_host.libibverbs.build_program import ALL_SANITIZERS, build_once, build_pages_program, needs_libraries
from tests.seeds import SEED

pytestmark = needs_libraries

OLD_KERNEL = {"WITHOUT_QUERY": "1"}  # /proc/self/maps is read, as before Linux 6.11
CALLS = 200  # system calls that one region may take at most
STEPS = 1500


def pages_program(factory: pytest.TempPathFactory, name: str, sanitizers: str) -> Path:
    made = build_once(factory, f"pages-{name}", lambda folder: build_pages_program(folder, sanitizers))
    return made / "pages_test"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pages_program(tmp_path_factory, "plain", "")


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pages_program(tmp_path_factory, "sanitized", ALL_SANITIZERS)


def run(program: Path, *words: object, **environment: str) -> str:
    """What it prints; it must succeed."""
    done = subprocess.run(
        [program, *map(str, words)], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def queries_mappings() -> bool:
    """Whether the kernel can be asked for one mapping."""
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(minor.partition("-")[0])) >= (6, 11)


@pytest.mark.skipif(not queries_mappings(), reason="Linux older than 6.11 reads /proc/self/maps")
def test_a_region_costs_the_same_however_many_there_are(plain: Path) -> None:
    few, many = ([int(word) for word in run(plain, "many", count).split()] for count in (200, 10_000))
    assert max(few + many) < CALLS
    assert many[0] == few[0], "an entry"


@pytest.mark.parametrize(
    "case", ["stack", "thread", "signal_stack", "coroutine", "traffic", "neighbours", "crowd", "reuse"]
)
@pytest.mark.parametrize("environment", [{}, OLD_KERNEL], ids=["query", "read"])
def test_the_child_of_a_fork_has_copies(plain: Path, case: str, environment: dict[str, str]) -> None:
    """Whatever the thread that forks runs on, while its buffer is registered and afterwards."""
    run(plain, case, **environment)


@pytest.mark.second_ring
@pytest.mark.parametrize("case", ["stack", "thread", "signal_stack", "coroutine", "reuse"])
def test_the_child_of_a_fork_has_copies_under_sanitizers(sanitized: Path, case: str) -> None:
    run(sanitized, case)


@pytest.mark.second_ring
@pytest.mark.parametrize("environment", [{}, OLD_KERNEL], ids=["query", "read"])
def test_a_region_too_many_is_refused_and_the_others_stay(plain: Path, environment: dict[str, str]) -> None:
    run(plain, "too_many", **environment)


@pytest.mark.parametrize("environment", [{}, OLD_KERNEL], ids=["query", "read"])
def test_random_regions_forks_and_mappings_keep_every_byte(plain: Path, environment: dict[str, str]) -> None:
    print(f"seed {SEED}")
    run(plain, "anything", SEED, STEPS, **environment)


def test_random_regions_forks_and_mappings_keep_every_byte_under_sanitizers(sanitized: Path) -> None:
    print(f"seed {SEED}")
    run(sanitized, "anything", SEED, STEPS)
