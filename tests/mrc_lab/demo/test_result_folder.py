import os

import pytest

from mrc_lab.demo.result_folder import ResultFolder
from mrc_lab.errors import ExperimentError


def test_latest_points_to_the_newest(tmp_path):
    first = ResultFolder(tmp_path / "results", environment={})
    first.finish()
    second = ResultFolder(tmp_path / "results", environment={})
    assert second.path != first.path
    second.finish()
    latest = tmp_path / "results" / "demo" / "latest"
    assert latest.is_symlink()
    assert latest.resolve() == second.path
    assert not os.path.isabs(os.readlink(latest))


def test_latest_stays_until_a_run_has_finished(tmp_path):
    first = ResultFolder(tmp_path, environment={})
    first.finish()
    ResultFolder(tmp_path, environment={})
    assert (tmp_path / "demo" / "latest").resolve() == first.path


def test_an_unwritable_location_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ExperimentError, match="cannot write results"):
        ResultFolder(tmp_path / "file", environment={})


def test_discarding_removes_only_what_was_created(tmp_path):
    kept = ResultFolder(tmp_path / "results", environment={})
    ResultFolder(tmp_path / "results", environment={}).discard()
    assert kept.path.exists()
    other = ResultFolder(tmp_path / "other", environment={})
    (other.path / "live-view.html").write_text("begun and not finished")
    other.discard()
    assert not (tmp_path / "other").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_under_sudo_results_belong_to_the_invoking_user(tmp_path):
    folder = ResultFolder(tmp_path / "results", environment={"SUDO_UID": "1234", "SUDO_GID": "4321"})
    (folder.path / "sub").mkdir()
    (folder.path / "sub" / "file").write_text("x")
    folder.finish()
    for path in (
        tmp_path / "results",
        tmp_path / "results" / "demo",
        tmp_path / "results" / "demo" / "latest",
        folder.path,
        folder.path / "sub" / "file",
    ):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (1234, 4321), path
    assert tmp_path.lstat().st_uid == os.getuid()


def test_a_folder_called_latest_stays_and_the_result_is_there(tmp_path):
    (tmp_path / "demo" / "latest").mkdir(parents=True)
    (tmp_path / "demo" / "latest" / "mine").touch()
    folder = ResultFolder(tmp_path, environment={})
    folder.finish()
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == [folder.path.name, "latest"]
    assert (tmp_path / "demo" / "latest" / "mine").exists()
