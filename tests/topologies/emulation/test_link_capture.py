"""What a capture, which runs as root, writes to: a plain file of its own, wherever others may write."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from topologies.emulation.link_capture import CaptureEnd, Job, describe, main, open_new

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


@pytest.mark.parametrize(
    ("dscp", "ecn", "comment"),
    [
        (4, 2, ""),
        (4, 3, "marked: congestion at t0-0@p0 or at a switch before it"),
        (12, 2, "trimmed: a queue was too long at t0-0@p0 or at a switch before it"),
        (16, 2, "trimmed by t0-0@p0: its queue towards this link was too long"),
        (
            12,
            3,
            "trimmed: a queue was too long at t0-0@p0 or at a switch before it; "
            "marked: congestion at t0-0@p0 or at a switch before it",
        ),
    ],
)
def test_a_frame_s_traffic_class_shows_what_was_done_to_it(dscp: int, ecn: int, comment: str) -> None:
    header = (6 << 28 | dscp << 22 | ecn << 20).to_bytes(4, "big")
    frame = bytes(12) + bytes.fromhex("86dd") + header + bytes(60)
    assert describe(frame, "t0-0@p0", (12, 16)) == comment


def test_a_frame_that_is_not_ipv6_shows_nothing() -> None:
    for frame in (b"", bytes(13), bytes(12) + bytes.fromhex("86dd"), b"\xff" * 100):
        assert describe(frame, "t0-0@p0", (12, 63)) == ""


def test_a_capture_job_survives_encoding() -> None:
    job = Job("/tmp/x", (CaptureEnd("h1", "h1-eth0", 7),), "words", NOBODY, (12, 16))
    assert Job.from_json(job.to_json()) == job
    assert Job.from_json(Job("/tmp/x", ()).to_json()).owner is None
