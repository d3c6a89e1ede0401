"""A child takes code neither from the current folder, nor from variables, nor from beside our packages."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mrc_common
from mrc_common import children
from mrc_lab.paper import reproduction
from mrc_lab.sweeps.local_processes import over_processes
from tests.mrc_lab.sweeps.workers import record, runs

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = ("yaml", "queue", "json", "grpc", "runpy", "pickle", "signal", "random", "sitecustomize", "usercustomize")
OURS = ("mrc_common", "mrc_host", "mrc_lab", "topologies")


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules write that they were run; it is the current one, and in the variables."""
    folder, witness = tmp_path / "trap", tmp_path / "executed"
    folder.mkdir()
    code = f"open({str(witness)!r}, 'a').write(__name__ + chr(10))\nraise ImportError('hostile')\n"
    for name in HOSTILE:
        (folder / f"{name}.py").write_text(code)
    for name in OURS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(code)
    monkeypatch.chdir(folder)
    for name in ("PYTHONPATH", "PYTHONUSERBASE"):
        monkeypatch.setenv(name, str(folder))
    monkeypatch.setenv("PYTHONSTARTUP", str(folder / "yaml.py"))
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    return witness


def test_our_modules_run_with_their_arguments(trap: Path):
    done = children.run(children.python("mrc_host.tools.trace", "--help"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
    assert not trap.exists(), trap.read_text()


@pytest.mark.parametrize("module", ["controller", "p4runtime_shim", "mrc_host.agent", "mrc_lab", "tests.swarm"])
def test_programs_in_a_hostile_folder_load_nothing_from_it(trap: Path, module: str):
    done = children.run(children.python(module, "--help"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not trap.exists(), trap.read_text()


def test_a_module_that_ends_is_not_searched_for_garbage(tmp_path: Path):
    """Programs of several hundred modules: it would take as long as importing a quarter of them."""
    (tmp_path / "mrc_common").mkdir()
    for name in ("__init__.py", "run_module.py"):
        shutil.copy(Path(children.__file__).with_name(name), tmp_path / "mrc_common")
    (tmp_path / "mrc_common" / "looping.py").write_text(
        "import gc\n"
        "gc.disable()\n"
        "class Loop:\n    def __init__(self): self.me = self\n    def __del__(self): print('collected')\n"
        "Loop()\nprint('done')\n"
    )
    command = (sys.executable, "-I", str(tmp_path / "mrc_common" / "run_module.py"), "mrc_common.looping")
    assert children.run(command, capture_output=True, text=True, check=True).stdout == "done\n"


def test_python_code_in_a_hostile_folder_loads_nothing_from_it(trap: Path):
    code = "import json, queue, yaml, mrc_host, sys; print(sys.argv[1:])"
    done = children.run(children.python_code(code, "a", "b"), capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("['a', 'b']\n", 0), done.stderr
    assert not trap.exists(), trap.read_text()


def test_asynchronous_children_load_nothing_from_a_hostile_folder(trap: Path):
    async def status() -> int:
        process = await children.start(children.python("mrc_host.agent", "--help"), stdout=subprocess.DEVNULL)
        return await process.wait()

    assert asyncio.run(status()) == 0
    assert not trap.exists(), trap.read_text()


@pytest.mark.second_ring
def test_sweep_and_paper_workers_load_nothing_from_a_hostile_folder(trap: Path, tmp_path: Path):
    """A worker looks a function up where its parent does, which is not in the current folder."""
    assert [outcome.lost for outcome in over_processes(runs(1, 2), 2, record)] == ["", ""]
    # private: `reproduce` starts workers only for files that it has read, which these are not
    outcomes = list(reproduction._run_all([(Path("no.yaml"), 1), (Path("none.yaml"), 1)], tmp_path, "sim", 2))
    assert all("no.yaml" in one.problem or "none.yaml" in one.problem for one in outcomes), outcomes
    assert not trap.exists(), trap.read_text()


@pytest.mark.parametrize("module", ["mrc_lab", "p4runtime_shim", "mrc_host.agent"])
def test_commands_started_by_users_do_not_import_from_the_current_folder(tmp_path: Path, module: str):
    """But for modules that Python has to import to get there, and for a folder with our packages' names."""
    witness = tmp_path / "executed"
    for name in ("yaml", "queue", "json", "grpc", "click", "numpy", "pathlib", "random", "subprocess"):
        (tmp_path / f"{name}.py").write_text(f"open({str(witness)!r}, 'a').write(__name__)\n")
    done = subprocess.run([sys.executable, "-m", module, "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not witness.exists(), witness.read_text()


def test_a_child_imports_its_parents_packages_and_nothing_beside_them(tmp_path: Path):
    """As in a checkout that is not installed, with somebody's files in it."""
    for file in Path(mrc_common.__file__).parent.glob("*.py"):
        (tmp_path / "mrc_common").mkdir(exist_ok=True)
        (tmp_path / "mrc_common" / file.name).write_text(file.read_text())
    (tmp_path / "mrc_host").mkdir()
    (tmp_path / "mrc_host" / "__init__.py").write_text("")
    (tmp_path / "mrc_host" / "here.py").write_text(
        "import importlib.util, sys, mrc_host\n"
        "print(mrc_host.__file__, importlib.util.find_spec('stray'), __name__, sys.argv[1:])\n"
    )
    (tmp_path / "stray.py").write_text("")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom mrc_common import children\n"
        "children.run(children.python('mrc_host.here', 'x'), check=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout == f"{tmp_path}/mrc_host/__init__.py None __main__ ['x']\n"


@pytest.mark.parametrize("how", ["module", "code"])
def test_user_site_packages_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """``sudo -E`` keeps HOME: root's children then ran what a ``.pth`` file in the user's own site-packages says."""
    python: str = getattr(sys, "_base_executable", sys.executable)  # an environment of its own has no such folder
    monkeypatch.setenv("HOME", str(tmp_path))
    ask = [python, "-c", "import site; print(site.getusersitepackages() if site.ENABLE_USER_SITE else '')"]
    own = subprocess.run(ask, env=children.environment(), capture_output=True, text=True, check=True).stdout.strip()
    if not own:
        pytest.skip("this Python takes nothing from there")
    witness = tmp_path / "executed"
    Path(own).mkdir(parents=True)
    (Path(own) / "own.pth").write_text(f"import sys; open({str(witness)!r}, 'a').write(sys.executable)\n")
    subprocess.run([python, "-c", ""], env=children.environment(), check=True)
    assert witness.exists(), "other Pythons do run it"
    witness.unlink()
    monkeypatch.setattr(sys, "executable", python)
    command = children.python("mrc_common.units") if how == "module" else children.python_code("import json")
    children.run(command, check=True)
    assert not witness.exists()


def test_a_missing_module_is_reported():
    done = children.run(children.python("mrc_host.nothing"), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "No module named mrc_host.nothing" in done.stderr


def test_exit_status_and_signals_are_the_modules_own(tmp_path: Path):
    assert children.run(children.python("mrc_host.agent", "--nonsense"), capture_output=True).returncode == 2
    with children.popen(children.python("mrc_lab.fabric.daemon", "embedded", ""), stdin=subprocess.PIPE) as process:
        process.terminate()
        assert process.wait(10) == -15


def test_only_dangerous_variables_are_removed_from_the_environment():
    given = {
        "PYTHONPATH": "/x",
        "LD_PRELOAD": "/x.so",
        "LD_LIBRARY_PATH": "",
        "GCC_EXEC_PREFIX": "/x",
        "C_INCLUDE_PATH": ".",
        "PATH": ".::bin:/usr/bin:/bin",
        "HOME": "/root",
        "SUDO_UID": "1000",
        "XDG_CACHE_HOME": "/c",
        "CC": "clang",
    }
    kept = {"PATH": "/usr/bin:/bin", "HOME": "/root", "SUDO_UID": "1000", "XDG_CACHE_HOME": "/c", "CC": "clang"}
    assert children.environment(given) == kept
    assert children.environment({}) == {}


def test_commands_are_not_looked_up_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "setpriv").write_text(f"#!/bin/sh\necho ours > {tmp_path}/executed\n")
    (tmp_path / "setpriv").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".::{Path('/usr/bin')}:/bin")
    children.run(["setpriv", "--version"], stdout=subprocess.DEVNULL, check=True)
    assert not (tmp_path / "executed").exists()
    children.secure_search_path()
    subprocess.run(["setpriv", "--version"], stdout=subprocess.DEVNULL, check=True)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("errors", ["there", "closed"])
def test_a_child_that_is_aborted_says_where_its_threads_are(tmp_path: Path, errors: str) -> None:
    package = tmp_path / "mrc_common"
    package.mkdir()
    for name in ("__init__.py", "run_module.py"):
        shutil.copy(Path(children.__file__).with_name(name), package)
    code = "import os\ndef abort_here(): os.abort()\nprint('here', flush=True)\nabort_here()\n"
    (package / "aborting.py").write_text(code)
    command = [sys.executable, "-I", str(package / "run_module.py"), "mrc_common.aborting"]
    if errors == "closed":
        command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    done = children.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("here\n", -signal.SIGABRT)
    assert ("in abort_here" in done.stderr) == (errors == "there")
