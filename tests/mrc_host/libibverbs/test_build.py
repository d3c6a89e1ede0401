"""How the library is built: from these sources, without a warning, with every symbol of the system's library."""

from __future__ import annotations

import ctypes
import errno
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mrc_common import children
from mrc_common.c_build.errors import CBuildError
from mrc_host.libibverbs import build
from mrc_host.libibverbs.build import Symbol
from tests.mrc_host.libibverbs.build_program import build_libraries, needs_libraries


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_libraries(tmp_path_factory) / build.SONAME


def system_library() -> str:
    return children.run(
        ["cc", "-print-file-name=libibverbs.so"], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.second_ring
@needs_libraries
def test_every_symbol_of_the_systems_library_exists_in_its_version(built: Path) -> None:
    ours, system = set(build.symbols(str(built))), set(build.symbols(system_library()))
    assert ours == {*system, build.FOR_LIBMRC}
    assert {"IBVERBS_1.0", "IBVERBS_1.1", "IBVERBS_1.13", "IBVERBS_1.14"} <= {one.version for one in ours}


@needs_libraries
def test_unsupported_functions_are_refused(built: Path) -> None:
    library = ctypes.CDLL(str(built), use_errno=True)
    library.ibv_create_srq.restype = ctypes.c_void_p
    assert library.ibv_create_srq(None, None) is None
    assert ctypes.get_errno() == errno.EOPNOTSUPP
    assert library.ibv_attach_mcast(None, None, 0) == errno.EOPNOTSUPP
    assert library.ibv_cmd_create_flow() == errno.EOPNOTSUPP  # of drivers


@needs_libraries
def test_programs_load_our_libibverbs(built: Path) -> None:
    devices = shutil.which("ibv_devices")
    if devices is None:
        pytest.skip("ibv_devices is not installed: apt-get install ibverbs-utils")
    environment = {"LD_LIBRARY_PATH": str(built.parent), "LD_BIND_NOW": "1"}
    listed = subprocess.run(
        [devices], env={**environment, "MRC_AGENT": "/nowhere.sock"}, capture_output=True, text=True
    )
    assert "mrc0" in listed.stdout
    assert "mrc0" not in subprocess.run([devices], env=environment, capture_output=True, text=True).stdout


def test_missing_functions_return_an_error_of_their_type() -> None:
    absent = [Symbol(name, "IBVERBS_1.99", False) for name in ("ibv_alloc_new", "ibv_do_new")]
    source = build.refusals([*absent, Symbol("some_flag", "IBVERBS_PRIVATE_34", True)])
    assert "void *ibv_alloc_new(void) { errno = EOPNOTSUPP; return NULL; }" in source
    assert "int ibv_do_new(void) { errno = EOPNOTSUPP; return EOPNOTSUPP; }" in source
    assert "char some_flag[64];" in source


def test_version_nodes_are_in_order_with_private_ones_last() -> None:
    nodes = ["IBVERBS_PRIVATE_34", "IBVERBS_1.10", "IBVERBS_1.9"]
    text = build.version_map([Symbol(f"f{i}", node, False) for i, node in enumerate(nodes)])
    assert text == (
        "IBVERBS_1.9 { global: f2; };\n"
        "IBVERBS_1.10 { global: f1; } IBVERBS_1.9;\n"
        "IBVERBS_PRIVATE_34 { global: f0; local: *; } IBVERBS_1.10;\n"
    )


@pytest.mark.parametrize(("compiler", "why"), [("cc", "libibverbs-dev"), (None, "apt-get install gcc")])
def test_each_missing_build_requirement_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str | None, why: str
) -> None:
    if compiler is not None:
        (tmp_path / compiler).write_text("#!/bin/sh\necho libibverbs.so\n")
        (tmp_path / compiler).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    assert build.library() is None
    with pytest.raises(CBuildError, match=why):
        build.build()


@needs_libraries
def test_libibverbs_is_rebuilt_only_when_its_sources_change(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_into(scratch: Path, flags: Sequence[str]) -> Path:
        compiled_with.append(tuple(flags))
        return shutil.copytree(built.parent, scratch, symlinks=True, dirs_exist_ok=True) / build.SONAME

    compiled_with: list[tuple[str, ...]] = []
    monkeypatch.setattr(build, "compile_into", compile_into)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert (build.library(), build.is_current()) == (None, False)
    path = build.build()
    assert (build.library(), build.is_current()) == (path, True)
    first = path.stat().st_ino
    assert build.build().stat().st_ino == first
    products = {"built-from", build.SONAME, build.MRC_SONAME, *build.MRC_ALIASES}
    assert {file.name for file in path.parent.iterdir()} == products
    (path.parent / "built-from").write_text("other sources")
    assert not build.is_current()
    assert build.build().stat().st_ino != first
    assert compiled_with == [("-O2",)] * 2
