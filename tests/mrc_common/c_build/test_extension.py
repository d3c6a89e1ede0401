"""Modules in C: imported like others, prebuilt ones if they fit, compiled ones where not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mrc_common.c_build import extension
from mrc_common.c_build.errors import CBuildError
from mrc_common.c_build.extension import CModule, CModuleFinder

SOURCE = """
#include <Python.h>
#include "number.h"
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "answer"};
PyMODINIT_FUNC PyInit_answer(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module)
        PyModule_AddIntConstant(module, "number", NUMBER);
    return module;
}
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CModule:
    """A module of tests only, with a cache, an environment and a wheel of its own."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source/answer.c").write_text(SOURCE)
    (tmp_path / "source/number.h").write_text("#define NUMBER 42\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setattr(extension, "_WHEEL", tmp_path / "wheel")
    return CModule("tests.answer", tmp_path / "source/answer.c")


def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise CBuildError("no compiler here")

    monkeypatch.setattr(extension.BuildOptions, "digest", refuse)


def test_a_module_is_imported_and_its_edited_source_the_next_time(
    module: CModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, CModuleFinder([module])])
    monkeypatch.delitem(sys.modules, module.name, raising=False)
    from tests import answer  # type: ignore[attr-defined]

    try:
        assert answer.number == 42
        assert Path(answer.__file__).is_relative_to(tmp_path / "cache")
    finally:
        del sys.modules[module.name]
    (tmp_path / "source/number.h").write_text("#define NUMBER 43\n")
    assert module.load().number == 43
    assert module.name not in sys.modules


@pytest.mark.parametrize("place", ["wheel", "environment/compiled/c"])
def test_a_prebuilt_module_needs_no_compiler(
    module: CModule, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module.build_into(tmp_path / place)
    no_compiler(monkeypatch)
    assert module.path().parent == tmp_path / place
    assert module.load().number == 42
    assert module.path().stat().st_mode & 0o444 == 0o444, "others may use it"


def test_a_prebuilt_module_of_other_sources_or_another_python_is_not_used(
    module: CModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module.build_into(tmp_path / "wheel")
    no_compiler(monkeypatch)
    with monkeypatch.context() as another:
        another.setattr(extension, "_abi", lambda: "cpython-99-x86_64-linux-gnu")
        with pytest.raises(CBuildError, match="no compiler here"):
            module.path()
    assert module.path()
    (tmp_path / "source/answer.c").write_text(SOURCE + "\n")
    with pytest.raises(CBuildError, match="no compiler here"):
        module.path()


def test_an_installation_keeps_no_modules_of_earlier_sources(module: CModule, tmp_path: Path) -> None:
    folder = extension.installed_folder()
    module.build_into(folder)
    module.build_into(folder)
    (first,) = folder.iterdir()
    (tmp_path / "source/answer.c").write_text(SOURCE + "\n")
    module.build_into(folder)
    (second,) = folder.iterdir()
    assert first != second


def test_missing_headers_of_python_are_named(module: CModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extension.sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(CBuildError, match="apt install python3-dev"):
        module.path()
