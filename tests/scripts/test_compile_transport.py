"""Compiling the transport: several at once, and one that is killed half-way, leave the old or the new one."""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from mrc_host import compiled
from scripts import compile_transport
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]

# Instead of the compiler: say that it runs, and make one module when `go` is there.
BUILD = """
import os, sys, time
from pathlib import Path
folder = Path({folder!r})
with (folder / "builds").open("a") as file:
    print(os.getpid(), file=file, flush=True)
while not (folder / "go").exists():
    time.sleep(0.01)
Path(sys.argv[1]).mkdir()
Path(sys.argv[1], "module.so").touch()
"""
RUN = """
from scripts import compile_transport
compile_transport.BUILD = {build!r}
raise SystemExit(compile_transport.main())
"""


class Place:
    """A Python environment of its own, as far as compiled modules go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.compiled = folder / "compiled"
        self.target = compiled.folder(folder)

    def compile(self) -> subprocess.Popen[str]:
        code = RUN.format(build=BUILD.format(folder=str(self.folder)))
        command = [sys.executable, "-c", f"import sys; sys.prefix = {str(self.folder)!r}\n{code}"]
        return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)

    def builds(self) -> list[int]:
        """Processes that have built, or do."""
        log = self.folder / "builds"
        return [int(line) for line in log.read_text().splitlines()] if log.exists() else []

    def entries(self) -> list[str]:
        own = (compile_transport.LOCK, "c")  # the latter has the modules in C
        return sorted(path.name for path in self.compiled.iterdir() if path.name not in own)


def finish(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return errors


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    old = made.compiled / "0123456789abcdef"
    old.mkdir(parents=True)
    compiled.seal(old)
    return made


def test_two_concurrent_builds_compile_once(place: Place) -> None:
    first = place.compile()
    until(place.builds)
    second = place.compile()
    assert second.stderr is not None
    assert "waiting for it" in second.stderr.readline()
    assert "0123456789abcdef" in place.entries()  # in use until there is another
    (place.folder / "go").touch()
    finish(first)
    finish(second)
    assert len(place.builds()) == 1
    assert place.entries() == [place.target.name]
    assert (place.target / "module.so").exists()
    names = {path.name.rpartition("-")[0] for path in (place.compiled / "c").iterdir()}
    assert names == {module.name for module in compile_transport.C_MODULES}


def test_a_killed_build_leaves_the_old_modules_and_blocks_nobody(place: Place) -> None:
    first = place.compile()
    until(place.builds)
    first.kill()
    first.communicate()
    assert "0123456789abcdef" in place.entries()
    assert place.target.name not in place.entries()
    (place.folder / "go").touch()
    assert finish(place.compile()) == ""
    assert place.entries() == [place.target.name]


def test_a_compiler_that_cannot_work_in_parts_compiles_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = """
import sys
from pathlib import Path
Path(sys.argv[1]).mkdir()
Path(sys.argv[1], "half.so" if "-flto=auto" in sys.argv else "module.so").touch()
raise SystemExit("cc: unknown option" if "-flto=auto" in sys.argv else 0)
"""
    monkeypatch.setattr(compile_transport, "BUILD", build)
    compile_transport.build_into(tmp_path / "place")
    assert sorted(path.name for path in (tmp_path / "place").iterdir()) == ["complete", "module.so"]


def test_an_environment_outside_the_project_is_compiled_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Really, but only the module with least: no settings of the project are found above its folder."""
    pytest.importorskip("mypyc")
    monkeypatch.setattr(compiled, "sources", lambda: [Path("mrc_host/verbs/remote/protocol.py")])
    compile_transport.build_into(tmp_path / "place")
    assert list((tmp_path / "place/mrc_host/verbs/remote").glob("protocol.*.so"))


def test_sources_changed_during_a_build_count_as_not_compiled(tmp_path: Path) -> None:
    with pytest.raises(compile_transport.CompileError, match="have just changed"):
        compile_transport.compile_transport(tmp_path / "of other sources")


def test_what_follows_a_failure_is_put_apart_from_what_packets_take(tmp_path: Path) -> None:
    mypyc = pytest.importorskip("mypyc")
    source = """
    #include <CPy.h>
    PyObject *next_of(PyObject *list, PyObject *globals) {
        PyObject *first = PyList_GetItem(list, 0);
        if (!first)
            CPy_AddTraceback("file.py", "next_of", 1, globals);
        return first;
    }
    """
    (tmp_path / "function.c").write_text(source)
    folders = (Path(mypyc.__path__[0]) / "lib-rt", sysconfig.get_path("include"))
    flags = [*shlex.split(compile_transport.CFLAGS), "-O2", "-c", *(f"-I{folder}" for folder in folders)]
    command = ["cc", *flags, str(tmp_path / "function.c"), "-o", str(tmp_path / "function.o")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = subprocess.run(["nm", str(tmp_path / "function.o")], capture_output=True, text=True, check=True).stdout
    assert "next_of.cold" in names
