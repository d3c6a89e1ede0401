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


@pytest.fixture
def small_engine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that compile at once in the place of the engine's, where it only matters that there is an object."""
    sources = tmp_path_factory.mktemp("sources")
    (sources / "engine.c").write_text("int mrc_nothing;\n")
    monkeypatch.setattr(build, "ENGINE_SOURCES", sources)
