"""Which wheels there are: one for this Python and machine with the transport compiled, or a pure one.

The compiler is a stand-in: what it makes is tested in tests/mrc_host/test_compiled.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from scripts import build_wheel, compile_transport

ROOT = Path(__file__).resolve().parents[2]
# Instead of mypyc: one module, in the folder that setup.py asks for.
STAND_IN = f"""
import sys
from pathlib import Path
Path(sys.argv[1], "mrc_host").mkdir(parents=True)
Path(sys.argv[1], "mrc_host/nic{sysconfig.get_config_var("EXT_SUFFIX")}").touch()
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what a wheel is made from, whose compiler is a stand-in; with leftovers of an earlier build."""
    copy = tmp_path / "checkout"
    for part in ("mrc_common", "mrc_host", "scripts"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    script = copy / "scripts/compile_transport.py"
    script.write_text(script.read_text().replace(compile_transport.BUILD, STAND_IN))
    (copy / "build/lib/mrc_host").mkdir(parents=True)
    (copy / "build/lib/mrc_host/left_over.py").touch()
    monkeypatch.setattr(build_wheel, "ROOT", copy)
    return copy


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.usefixtures("checkout")
def test_a_pure_wheel_serves_every_python_and_has_no_machine_code(tmp_path: Path) -> None:
    wheel = build_wheel.build_wheel(tmp_path / "built", compiled=False)
    assert wheel.name.endswith("-py3-none-any.whl")
    names = contents(wheel)
    assert "mrc_host/nic.py" in names
    assert not [
        name
        for name in names
        if "prebuilt" in name or name.endswith(".so") or "left_over" in name or name.startswith("scripts")
    ]


@pytest.mark.usefixtures("checkout")
def test_a_compiled_wheel_brings_sealed_modules_for_this_python(tmp_path: Path) -> None:
    wheel = build_wheel.build_wheel(tmp_path / "built", compiled=True)
    assert f"-cp3{sys.version_info[1]}-cp3{sys.version_info[1]}-linux_{os.uname().machine}" in wheel.name
    names = contents(wheel)
    assert {"mrc_host/nic.py", "mrc_host/prebuilt/complete"} <= names
    assert f"mrc_host/prebuilt/mrc_host/nic{sysconfig.get_config_var('EXT_SUFFIX')}" in names
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    code = (
        "from mrc_host import c_modules, compiled; print(compiled.available(), compiled.use(),"
        " all('prebuilt' in module.path().parts for module in c_modules.ALL))"
    )
    ask = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(unpacked)!r}); sys.prefix = '/nowhere'; {code}"]
    assert subprocess.run(ask, cwd=tmp_path, capture_output=True, text=True, check=True).stdout == "True True True\n"


def test_a_compiler_that_fails_leaves_no_wheel(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script = checkout / "scripts/compile_transport.py"
    script.write_text(script.read_text().replace(STAND_IN, "raise SystemExit('error: no compiler')"))
    monkeypatch.setattr(sys, "argv", ["build_wheel", "--into", str(tmp_path / "dist")])
    assert build_wheel.main() == 1
    errors = capfd.readouterr().err
    assert "no compiler" in errors
    assert errors.endswith("The wheel was not built: pip could not build the wheel.\n")
    assert not (tmp_path / "dist").exists()


def test_what_auditwheel_refuses_is_no_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "auditwheel").write_text("#!/bin/sh\necho too new a libc >&2\nexit 1\n")
    (tmp_path / "auditwheel").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(build_wheel.BuildFailedError, match="auditwheel refused it: too new a libc"):
        build_wheel.with_platform(tmp_path / "one.whl", tmp_path / "tagged")
