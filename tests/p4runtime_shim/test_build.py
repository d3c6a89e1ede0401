"""Compilation: the cache, concurrent builds, a missing compiler, clean code."""

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mrc_common.c_build.compiler import Limits
from p4runtime_shim import build, ctypes_bindings
from p4runtime_shim.codegen import generate
from p4runtime_shim.errors import BuildError, ResourceExhausted
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program import load_program
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import programs
from tests.p4runtime_shim.builder import Builder, send_to
from tests.p4runtime_shim.conftest import FAST


def program(port: int) -> str:
    builder = Builder()
    builder.run(builder.action("a", [send_to(port)]))
    return builder.text()


@pytest.mark.second_ring
def test_equal_programs_share_an_object(cache: Path) -> None:
    first = build.build(program(1), cache=cache, options=FAST)
    stamp = first.stat().st_mtime_ns
    assert build.build(program(1), cache=cache, options=FAST) == first
    assert first.stat().st_mtime_ns == stamp
    assert build.build(program(2), cache=cache, options=FAST) != first
    assert build.build(program(1), cache=cache, options=build.BuildOptions(flags=("-O0", "-g0"))) != first
    assert not list(cache.glob("**/build-*"))


@pytest.mark.usefixtures("small_engine")
def test_machines_of_another_type_use_separate_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build.build_engine(cache=tmp_path, options=FAST)
    monkeypatch.setattr(platform, "machine", lambda: "another")
    assert build.build_engine(cache=tmp_path, options=FAST) != first


@pytest.mark.second_ring
def test_processes_can_build_concurrently(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from p4runtime_shim import build;"
        "print(build.build(sys.stdin.read(), cache=pathlib.Path(sys.argv[1]),"
        " options=build.BuildOptions(flags=('-O0',))))"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(build.__file__).parents[1],
        )
        for _ in range(3)
    ]
    outputs = {process.communicate(program(1))[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(outputs) == 1
    assert Path(outputs.pop().strip()).exists()


def test_without_a_compiler_the_message_says_what_to_install(tmp_path: Path) -> None:
    options = build.BuildOptions(compiler="no-such-compiler")
    with pytest.raises(BuildError, match="apt install gcc"):
        build.build(program(1), cache=tmp_path, options=options)


def test_an_unusable_cache_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match="cache directory"):
        build.build(program(1), cache=tmp_path / "file", options=FAST)


@pytest.mark.parametrize("name", [*programs.NAMES, "fabric"])
def test_generated_code_compiles_without_warnings(name: str, tmp_path: Path) -> None:
    text = programs.FABRIC.read_text() if name == "fabric" else programs.text(name)
    source = tmp_path / "program.c"
    source.write_text(generate(load_program(text)).code)
    command = ["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    done = subprocess.run(
        [*command, "-I", str(build.ENGINE_SOURCES), str(source)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_engine_compiles_without_warnings() -> None:
    command = ["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    sources = sorted(str(path) for path in build.ENGINE_SOURCES.rglob("*.c"))
    headers = ["-I", str(build.ENGINE_SOURCES), "-I", str(build.ENGINE_SOURCES.parents[1] / "mrc_common")]
    done = subprocess.run([*command, *headers, *sources], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_drop_reasons_match_the_header() -> None:
    header = (build.ENGINE_SOURCES / "switch.h").read_text()
    assert tuple(re.findall(r"^    X\((\w+), ", header, re.MULTILINE)) == ctypes_bindings.DROP_REASONS


def test_functions_without_declared_types_cannot_be_called() -> None:
    """ctypes would pass them handles of 32 bits, which happen to be enough in some processes."""
    engine = ctypes_bindings.load_engine()
    assert not hasattr(engine.library, "sw_set_timing")
    assert engine.hot.sw_set_timing.argtypes[0] is ctypes.c_void_p


def test_the_real_compiler_fails_cleanly_with_too_little_memory(cache: Path) -> None:
    options = replace(FAST, limits=Limits(memory=24 << 20))
    with pytest.raises(ResourceExhausted):
        build.build(program(1), cache=cache, options=options)
    assert not list(cache.rglob("program-*.so"))
    assert not list(cache.rglob("build-*"))


def test_oversized_programs_are_not_compiled(cache: Path) -> None:
    options = replace(FAST, limits=Limits(source=1000))
    with pytest.raises(ResourceExhausted, match="MB of C"):
        build.build(program(1), cache=cache, options=options)


def test_an_unused_program_is_unloaded(cache: Path) -> None:
    def loaded(path: Path) -> bool:
        return path.name in Path("/proc/self/maps").read_text()

    pipeline = Pipeline.load(program(1), cache=cache, options=FAST)
    path = pipeline.path
    with EmbeddedSwitch(pipeline, ports=range(4), seed=0) as switch:
        del pipeline
        assert loaded(path)
        switch.receive(0, bytes(64), 1)
        assert switch.transmit(1, 1) == bytes(64)
        switch.set_pipeline(None)
        assert not loaded(path)
