"""Leftovers of fabrics that somebody else removes, or uses again, at the same moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from topologies.emulation import cleanup
from topologies.emulation.cleanup import CleanupReport
from topologies.emulation.errors import InUseError
from topologies.emulation.run_directory import RunDirectory


def leftover(root: Path, name: str) -> RunDirectory:
    run = RunDirectory(name, root)
    run.create()
    run.fabric_file.write_text("name: it\n")
    return run


def test_two_that_clean_at_once_leave_each_other_in_peace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of two leftovers is taken by the other one between the look and the removal."""
    taken, free = leftover(tmp_path, "aa"), leftover(tmp_path, "bb")
    plain = cleanup.clean

    def clean(name: str, *, root: Path, force: bool) -> CleanupReport:
        if name == "aa":
            with taken.locked():
                return plain(name, root=root, force=force)
        return plain(name, root=root, force=force)

    monkeypatch.setattr(cleanup, "clean", clean)
    monkeypatch.setattr(cleanup, "_delete_interfaces", lambda *_, **__: 0)
    monkeypatch.setattr(cleanup, "_refuse_live", lambda *_: None)
    monkeypatch.setattr(cleanup, "_live", lambda *_: False)
    assert [report.name for report in cleanup.clean_all(root=tmp_path)] == ["bb"]
    assert taken.fabric_file.exists()
    assert not free.path.exists()
    with taken.locked(), pytest.raises(InUseError, match="aa is up"):
        plain("aa", root=tmp_path)
