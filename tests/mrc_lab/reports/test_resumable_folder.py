"""A folder is claimed: others, and calls for something else, are refused, and a full disk costs nothing."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.reports import resumable_folder
from mrc_lab.reports.resumable_folder import FolderClaim, claimed

CLAIM = FolderClaim("table.json", {"hosts": 4}, ("runs", "logs"), "table", "holds another table", "Remove it.")


def test_the_same_claim_is_accepted_again_and_another_refused(tmp_path: Path) -> None:
    for _ in range(2):
        with claimed(tmp_path / "a" / "b", CLAIM):
            (tmp_path / "a" / "b" / "runs" / "1.json").write_text("{}")
    with (
        pytest.raises(ExperimentError, match="b holds another table"),
        claimed(tmp_path / "a" / "b", replace(CLAIM, content={"hosts": 8})),
    ):
        pass


def test_a_folder_in_use_is_refused_until_it_is_free(tmp_path: Path) -> None:
    with (
        claimed(tmp_path, CLAIM),
        pytest.raises(ExperimentError, match="is being filled by another table"),
        claimed(tmp_path, CLAIM),
    ):
        pass
    with claimed(tmp_path, CLAIM):
        pass


def test_an_error_of_the_body_is_not_taken_for_the_folders(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), claimed(tmp_path, CLAIM):
        raise BlockingIOError


def test_a_folder_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.md").write_text("")
    with pytest.raises(ExperimentError, match="holds something else"), claimed(tmp_path, CLAIM):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.md"]


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff"])
def test_results_whose_claim_is_lost_are_refused(text: str, tmp_path: Path) -> None:
    with claimed(tmp_path, CLAIM):
        (tmp_path / "logs" / "1.log").write_text("")
    (tmp_path / "table.json").write_text(text, encoding="latin-1")
    with pytest.raises(ExperimentError, match="holds another table"), claimed(tmp_path, CLAIM):
        pass


def test_a_place_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ExperimentError, match="file cannot be written: Not a directory"),
        claimed(tmp_path / "file", CLAIM),
    ):
        pass


def test_a_full_disk_is_reported_and_the_call_may_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It becomes full in the middle of the claim."""

    def fill(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(resumable_folder, "_write", fill)
        with (
            pytest.raises(ExperimentError, match=r"table\.json cannot be written: No space left on device"),
            claimed(tmp_path, CLAIM),
        ):
            pass
    with claimed(tmp_path, CLAIM):
        pass


def test_a_claim_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / CLAIM.name).symlink_to(elsewhere)
    with pytest.raises(ExperimentError, match="cannot be written"), claimed(folder, CLAIM):
        pass
    assert elsewhere.read_text() == ""
