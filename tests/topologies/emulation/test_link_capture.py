"""What a capture, which runs as root, writes to: a plain file of its own, wherever others may write."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from topologies.emulation.link_capture import CaptureEnd, Job, main, open_new

ROOT = os.geteuid() == 0
NOBODY = (65534, 65534)


def symbolic(file: Path, victim: Path) -> None:
    file.symlink_to(victim)


def dangling(file: Path, victim: Path) -> None:
    file.symlink_to(victim.with_name("nothing"))


def hard(file: Path, victim: Path) -> None:
    os.link(victim, file)


def fifo(file: Path, victim: Path) -> None:
    os.mkfifo(file)


@pytest.mark.parametrize("trap", [symbolic, dangling, hard, fifo])
def test_captures_are_written_to_plain_files_only(tmp_path: Path, trap: Callable[[Path, Path], None]) -> None:
    victim, file = tmp_path / "victim", tmp_path / "link.pcapng"
    victim.write_text("precious")
    before = victim.stat()
    trap(file, victim)
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is looked at
        open_new(str(file), NOBODY)
    assert caught.value.errno in (errno.ELOOP, errno.EINVAL, errno.ENXIO)
    assert victim.read_text() == "precious"
    assert (victim.stat().st_uid, victim.stat().st_gid) == (before.st_uid, before.st_gid)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.skipif(not ROOT, reason="giving a file away needs root")
def test_a_new_file_belongs_to_the_user_and_an_existing_one_keeps_its_owner(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("what was captured before")
    for file in (new, old):
        os.close(open_new(str(file), NOBODY))
    assert (new.stat().st_uid, new.stat().st_gid) == NOBODY
    assert old.stat().st_uid == 0
    assert old.read_text() == ""


def test_refusals_have_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert main(Job(str(tmp_path / "link"), ()).to_json()) == 1
    output = capsys.readouterr().out
    assert output == f"{tmp_path}/link cannot be written: it is a symbolic link, which root does not follow.\n"


def test_a_capture_job_survives_encoding() -> None:
    job = Job("/tmp/x", (CaptureEnd("h1", "h1-eth0", 7),), "words", NOBODY)
    assert Job.from_json(job.to_json()) == job
    assert Job.from_json(Job("/tmp/x", ()).to_json()).owner is None
