"""The project as pip installs it elsewhere: from a wheel, without privileges, without Mininet, from any folder.

The fresh environment sees the packages that this one has, but neither the checkout nor Mininet.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_common.run_module import PACKAGES
from mrc_host.libibverbs.build import MRC_SOURCES, SOURCES
from tests.mrc_lab.paper.test_published import FILES

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
_PARTS = tuple(sorted(PACKAGES - {"benchmarks", "scripts", "tests"}))


class Installed:
    """A folder that anybody may read, with an environment in it and a home for its user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        if os.geteuid() == 0:
            os.chown(self.home, NOBODY, NOBODY)
        self.python = folder / "venv/bin/python"

    def run(self, *command: str | Path, cwd: str = "/") -> subprocess.CompletedProcess[str]:
        """Run a command as nobody in particular, with nothing of ours in its environment."""
        drop = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups") if os.geteuid() == 0 else ()
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.home)}
        return subprocess.run([*drop, *command], cwd=cwd, env=environment, capture_output=True, text=True, check=False)

    def mrc(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``mrc`` from the root folder."""
        return self.run(self.folder / "venv/bin/mrc", *words)


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    folder = Path(tempfile.mkdtemp(prefix="mrc-wheel-"))
    folder.chmod(0o755)
    try:
        made = Installed(folder)
        _install(folder, _wheel(folder / "source"))
        if made.run(made.python, "-c", "import click").returncode:
            pytest.skip("another user cannot read this environment's packages")
        yield made
    finally:
        shutil.rmtree(folder)


def _wheel(source: Path) -> Path:
    for part in _PARTS:
        shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    words = ("wheel", "-q", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-w", source / "dist")
    subprocess.run([sys.executable, "-m", "pip", *words, source], check=True)
    (found,) = (source / "dist").glob("*.whl")
    return found


def _install(folder: Path, wheel: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv/bin/python"
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    words = ("--python", python, "install", "-q", "--no-deps", "--disable-pip-version-check", wheel)
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    others = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "others.pth").write_text("\n".join([*others, 'import sys; sys.modules["mininet"] = None']) + "\n")


def test_an_experiment_runs_from_any_folder_with_a_private_cache(installed: Installed):
    file = installed.folder / "write.yaml"
    file.write_text(FILES["write"])
    results = installed.home / "results"
    done = installed.mrc("run", str(file), "--backend", "sim", "--results", str(results))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (results / "write/latest/report.html").is_file()
    assert list((installed.home / ".cache/mrc-testbed/switch").glob("program-*.so"))
    asked = installed.run(installed.python, "-c", "import p4src, mrc_lab; print(p4src.BUILD, mrc_lab.__file__)")
    assert all(word.startswith(str(installed.folder)) for word in asked.stdout.split()), asked.stdout
    assert (installed.home / "results/write/latest/experiment.yaml").read_text() == FILES["write"]


def test_commands_work_without_root_or_say_they_need_it(installed: Installed):
    assert installed.mrc("plan", "--nics", "65536").returncode == 0
    refused = installed.mrc("up")
    assert refused.returncode == 3
    assert "needs root" in refused.stderr
    shown = installed.mrc("doctor")
    assert "Python cannot find Mininet" in shown.stdout
    for done in (refused, shown):
        assert "Traceback" not in done.stdout + done.stderr


def test_an_unwritable_folder_is_reported_before_the_run(installed: Installed):
    file = installed.folder / "write.yaml"
    file.write_text(FILES["write"])
    done = installed.mrc("run", str(file))  # its results would go to /results
    assert done.returncode == 3
    assert "results cannot be" in done.stderr
    assert "1 of 1" not in done.stderr, "the run had begun"


def test_pytest_finds_the_fixtures(installed: Installed):
    file = installed.folder / "test_own.py"
    file.write_text("def test_own(mrc_fabric): mrc_fabric.write('h1', 'h3', '64K')\n")
    options = ("-c", "/dev/null", "-p", "no:cacheprovider", "--rootdir", str(installed.home))
    done = installed.run(installed.python, "-m", "pytest", *options, str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("sources", [SOURCES, MRC_SOURCES], ids=lambda folder: folder.name)
def test_the_sources_of_c_libraries_are_installed(installed: Installed, sources: Path):
    (folder,) = installed.folder.glob(f"venv/lib/python*/site-packages/mrc_host/{sources.name}")
    assert {file.name for file in folder.glob("*.[ch]")} == {file.name for file in sources.glob("*.[ch]")}


def test_the_digits_data_set_and_its_licence_are_installed(installed: Installed):
    code = (
        "from mrc_lab.workloads.training.data import digits, _DIGITS\n"
        "print(len(digits().labels), 'UCI' in (_DIGITS.parent / 'README.md').read_text())"
    )
    assert installed.run(installed.python, "-c", code).stdout == "1437 True\n"


def test_installed_packages_provide_their_types(installed: Installed):
    for part in _PARTS:
        code = f"from importlib.resources import files; print(files({part!r}).joinpath('py.typed').is_file())"
        assert installed.run(installed.python, "-c", code).stdout == "True\n", part
