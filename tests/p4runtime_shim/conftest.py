"""Caches of compiled objects for tests: compiling the engine is most of what a test with an empty cache does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from p4runtime_shim import build

FAST = build.BuildOptions(flags=("-O0",))


@pytest.fixture(scope="session")
def engine_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all, with the engine as FAST compiles it; not to be written to."""
    folder = tmp_path_factory.mktemp("engine")
    build.build_engine(cache=folder, options=FAST)
    return folder


@pytest.fixture
def cache(engine_cache: Path, tmp_path: Path) -> Path:
    """A cache of the test's own that has the engine already."""
    shutil.copytree(engine_cache, tmp_path, dirs_exist_ok=True)
    return tmp_path
