"""The compiled transport behaves as its sources do: tests of whole NICs, run on it in another process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mrc_host import compiled

ROOT = Path(__file__).resolve().parents[2]
TESTS = (
    "test_nic.py",
    "test_nic_refusals.py",
    "test_nic_faults.py",
    "test_nic_fuzz.py",
    "test_nic_congestion.py",
    "test_nic_gather_lists.py",
    "wire",
    "datapath/test_same_behaviour.py",
    "transport/roce/test_rc.py",
    "transport/test_data_packets.py",
    "transport/test_sent_packets.py",
)


def outcome(code: str) -> str:
    """What a Python process of its own prints."""
    command = (sys.executable, "-c", code)
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def built() -> None:
    if compiled.available():
        return
    log = compiled.folder().parent / "failed.log"
    if log.exists():
        pytest.fail(f"The transport could not be compiled:\n{log.read_text()[-2000:]}")
    pytest.skip("changed since it was compiled: run `.venv/bin/python -m scripts.compile_transport`")


@pytest.mark.second_ring
@pytest.mark.usefixtures("built")
def test_the_compiled_transport_passes_the_same_tests() -> None:
    tests = [f"tests/mrc_host/{name}" for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.compiled", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("built")
def test_the_compiled_transport_is_used_on_request() -> None:
    code = "from mrc_host import compiled; {}; import mrc_host.nic, mrc_host.transport.qp as qp; print(qp.__file__)"
    assert outcome(code.format("assert compiled.use()")).strip().endswith(".so")
    assert outcome(code.format("pass")).strip().endswith("qp.py")


@pytest.mark.usefixtures("built")
def test_compiled_modules_and_sources_are_never_mixed() -> None:
    code = "from mrc_host import compiled, nic\ntry: compiled.use()\nexcept RuntimeError as error: print(error)"
    assert outcome(code).startswith("Too late to use the compiled transport: ")


@pytest.mark.usefixtures("built")
def test_modules_in_c_are_those_of_either_transport() -> None:
    """A program imports the checksum, which is in C, and decides for the compiled transport later."""
    code = """
import mrc_host.checksum
from mrc_host import compiled, datapath
print(mrc_host.checksum.crc32 is datapath.load().crc32, compiled.use())
import mrc_host.nic
print(mrc_host.nic.__file__.endswith(".so"), mrc_host.checksum.crc32 is datapath.load().crc32)
"""
    assert outcome(code).split() == ["True"] * 4


def test_changed_sources_are_detected_as_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "mrc_host"
    shutil.copytree(ROOT / "mrc_host", package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(compiled, "_PACKAGE", package)
    before = compiled.folder()
    assert before == compiled.folder()
    for name in ("nic.py", "transport/roce/go_back_n_qp.py", "wire/psn.py", "verbs_types.py"):
        with (package / name).open("a") as file:
            file.write("# changed\n")
        assert compiled.folder() != before, name
        before = compiled.folder()
    assert not compiled.use()


def test_all_modules_on_the_packet_path_are_compiled() -> None:
    names = {str(path) for path in compiled.sources()}
    assert {"mrc_host/nic.py", "mrc_host/transport/requester.py", "mrc_host/wire/control.py"} <= names
    assert not any(name.endswith("__init__.py") for name in names)


def test_the_port_that_gives_the_kernel_addresses_of_its_variables_stays_python() -> None:
    port = Path("mrc_host/driver/packet_port.py")
    assert (ROOT / port).is_file()
    assert port not in compiled.sources()


def test_modules_that_a_wheel_brings_serve_its_sources_and_python_only(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(compiled.sys, "prefix", str(tmp_path))
    monkeypatch.setattr(compiled, "_PREBUILT", tmp_path / "prebuilt")
    assert not compiled.available()
    (tmp_path / "prebuilt").mkdir()
    compiled.seal(tmp_path / "prebuilt")
    assert compiled.available()
    with monkeypatch.context() as another:
        another.setattr(compiled, "_abi", lambda: "cpython-99-x86_64-linux-gnu")
        assert not compiled.available()
    with monkeypatch.context() as changed:
        changed.setattr(compiled, "sources", lambda: [Path("mrc_host/nic.py")])
        assert not compiled.available()
    assert compiled.outdated() is None


@pytest.mark.parametrize(("before", "warned"), [("another", True), (None, False)])
def test_outdated_compiled_modules_are_reported(tmp_path: Path, monkeypatch, before: str | None, warned: bool):
    """After an edit; not where nothing was ever compiled, nor where these sources are."""
    monkeypatch.setattr(compiled.sys, "prefix", str(tmp_path))
    if before:
        (tmp_path / "compiled" / before).mkdir(parents=True)
        compiled.seal(tmp_path / "compiled" / before)
    assert (compiled.outdated() is not None) == warned
    compiled.folder().mkdir(parents=True)
    compiled.seal(compiled.folder())
    assert compiled.outdated() is None


@pytest.mark.parametrize(
    ("start", "words", "warned"),
    [
        ("from mrc_lab.__main__ import main; main()", ("mrc", "up", "--help"), True),
        ("from mrc_lab.__main__ import main; main()", ("mrc", "--version"), False),
        ("import runpy; runpy.run_module('tests.swarm', run_name='__main__')", ("swarm", "--help"), True),
    ],
)
def test_commands_warn_about_outdated_compiled_modules(
    tmp_path: Path, start: str, words: tuple[str, ...], warned: bool
):
    (tmp_path / "compiled" / "another").mkdir(parents=True)
    compiled.seal(tmp_path / "compiled" / "another")
    code = f"import sys; sys.prefix = {str(tmp_path)!r}; sys.argv = {list(words)!r}\n{start}"
    done = subprocess.run((sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=True)
    assert ("has changed since it was compiled" in done.stderr) == warned
    assert done.stderr.count("\n") == warned
