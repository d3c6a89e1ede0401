"""Shared objects: one for equal sources, compiled once however many ask, and errors that say what to do."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from mrc_common.c_build import object_cache, shared_object
from mrc_common.c_build.errors import CBuildError
from mrc_common.c_build.shared_object import BuildOptions, cached, compile_shared
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]

# A compiler that says that it runs, and makes something when `go` is there.
COMPILER = """#!/bin/sh
[ "$1" = --version ] && exec echo "one 1.0"
echo "$$" >> {folder}/compilers
while [ ! -e {folder}/go ]; do sleep 0.01; done
while [ "$1" != -o ]; do shift; done
echo made > "$2"
"""
ASK = """
import sys
from pathlib import Path
from mrc_common.c_build.shared_object import BuildOptions, cached, compile_shared
folder = Path(sys.argv[1])
print("asked", flush=True)
print(compile_shared(cached("thing-1", folder / "cache"), [], BuildOptions(compiler=str(folder / "cc")), {"a.c": ""}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cc").write_text(COMPILER.format(folder=tmp_path))
    (tmp_path / "cc").chmod(0o755)
    return tmp_path


def ask(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", ASK, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def compilers(folder: Path) -> list[str]:
    log = folder / "compilers"
    return log.read_text().split() if log.exists() else []


def test_processes_that_ask_for_the_same_object_compile_it_once(folder: Path) -> None:
    running = [ask(folder) for _ in range(3)]
    for process in running:
        assert process.stdout
        assert process.stdout.readline() == "asked\n"
    until(lambda: compilers(folder))
    (folder / "go").touch()
    outputs = {process.communicate()[0] for process in running}
    assert outputs == {f"{cached('thing-1', folder / 'cache')}\n"}
    assert len(compilers(folder)) == 1
    assert not list((folder / "cache").rglob("*.lock"))


def test_an_object_is_compiled_although_whoever_began_with_it_was_killed(folder: Path) -> None:
    first = ask(folder)
    until(lambda: compilers(folder))
    second = ask(folder)
    first.kill()
    first.communicate()
    until(lambda: len(compilers(folder)) == 2)
    (folder / "go").touch()
    assert "thing-1.so" in second.communicate()[0]


def test_machines_and_flags_have_objects_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.c").write_text("")
    options, files = BuildOptions(), [tmp_path / "a.c"]
    first = options.digest(files)
    assert options.digest(files) == first
    assert BuildOptions(flags=("-O0",)).digest(files) != first
    assert options.digest(files, "more") != first
    (tmp_path / "a.c").write_text("\n")
    assert (second := options.digest(files)) != first
    monkeypatch.setattr(platform, "machine", lambda: "another")
    assert options.digest(files) != second


def test_without_a_compiler_the_message_says_what_to_install() -> None:
    with pytest.raises(CBuildError, match="'no-such-compiler' does not run; try: apt install gcc"):
        BuildOptions(compiler="no-such-compiler").digest([])


def test_an_unusable_cache_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CBuildError, match="cache directory"):
        cached("thing-1", tmp_path / "file")


def test_what_the_compiler_refuses_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(CBuildError, match=r"refused thing-1\.so: .*error: "):
        compile_shared(cached("thing-1", tmp_path), [], BuildOptions(), {"a.c": "nonsense"})
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_the_default_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert object_cache.default_cache() == Path("/somewhere/mrc-testbed")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert shared_object.default_cache() == Path("/home/somebody/.cache/mrc-testbed")
