"""What tests compile once: by the first that asks, and anew if that failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mrc_host.libibverbs.build_program import build_once


def test_a_folder_is_made_once_and_a_failure_leaves_none(tmp_path_factory: pytest.TempPathFactory) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "program").touch()
        if len(made) == 1:
            raise OSError("no compiler")

    name = "test of build_once"
    with pytest.raises(OSError, match="no compiler"):
        build_once(tmp_path_factory, name, make)
    folder = build_once(tmp_path_factory, name, make)
    assert [file.name for file in folder.iterdir()] == ["program"]
    assert build_once(tmp_path_factory, name, make) == folder
    assert len(made) == 2
