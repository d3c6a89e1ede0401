"""Files that users get: whole or not at all, never behind somebody's link, and named when they cannot be written."""

from __future__ import annotations

import ast
import errno
import os
import random
from pathlib import Path

import pytest

from mrc_common.written_files import create, naming, write_text, writing
from tests.seeds import SEED

ROOT = Path(__file__).parents[2]


def test_a_file_is_written_with_the_usual_mode_and_keeps_the_one_it_has(tmp_path: Path) -> None:
    file, usual = tmp_path / "file", tmp_path / "usual"
    write_text(file, "ä\n")
    usual.touch()
    assert file.read_text("utf-8") == "ä\n"
    assert file.stat().st_mode == usual.stat().st_mode
    file.chmod(0o600)
    write_text(file, "b")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("b", 0o600)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "usual"]


def test_what_was_there_stays_when_the_new_one_does_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text("before")

    def begin(error: BaseException) -> None:
        with writing(file) as stream:
            stream.write("half of")
            raise error

    with pytest.raises(OSError, match=r"No space left on device: .*page\.html"):
        begin(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with pytest.raises(KeyboardInterrupt):
        begin(KeyboardInterrupt())
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.root
def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    import subprocess

    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(tmp_path)], check=True)
    try:
        file = tmp_path / "page.html"
        file.write_text("before")
        with pytest.raises(OSError, match=r"No space left on device: .*page\.html"):
            write_text(file, "x" * 100_000)
        assert file.read_text() == "before"
        assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other, link = tmp_path / "other", tmp_path / "link"
    other.write_text("theirs")
    for target in (other, tmp_path / "nothing"):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        write_text(link, "ours")
        assert not link.is_symlink()
        assert link.read_text() == "ours"
    assert other.read_text() == "theirs"
    assert not (tmp_path / "nothing").exists()


def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    write_text(tmp_path / "null", "x")
    write_text("/dev/null", "x")
    assert (tmp_path / "null").is_symlink()
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_text("/dev/full", "x")


def test_what_is_written_for_long_is_there_at_once_and_behind_no_link(tmp_path: Path) -> None:
    other, file = tmp_path / "other", tmp_path / "trace"
    other.write_text("theirs")
    file.symlink_to(other)
    with open(create(file), "w") as stream:
        assert file.read_text() == ""
        stream.write("first\n")
        stream.flush()
        assert file.read_text() == "first\n"
    assert (file.is_symlink(), other.read_text()) == (False, "theirs")
    file.chmod(0o600)
    os.close(create(file))
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("", 0o600)
    os.close(create("/dev/null"))
    os.mkfifo(tmp_path / "fifo")
    for place in ("none/file", "fifo", "."):
        with pytest.raises(OSError, match=r".") as error:
            create(tmp_path / place)
        assert error.value.filename == str(tmp_path / place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "other", "trace"]


@pytest.mark.root
def test_a_device_behind_a_link_of_another_user_is_not_written_to(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/full")
    os.chown(link, 12345, 12345, follow_symlinks=False)
    write_text(link, "x")
    assert link.read_text() == "x"


@pytest.mark.parametrize("name", ["none/file", "folder"])
def test_a_place_that_cannot_be_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r".") as error:
        write_text(tmp_path / name, "x")
    assert error.value.filename == str(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_an_error_that_names_a_file_keeps_it() -> None:
    with pytest.raises(OSError, match="'/nowhere/x'"), naming("y"):
        os.open("/nowhere/x", os.O_RDONLY)


def test_random_writers_leave_one_whole_file(tmp_path: Path) -> None:
    print("seed", SEED)
    rng, file, whole = random.Random(SEED), tmp_path / ("f" * 250), ""
    for number in range(200):
        kind = rng.randrange(4)
        if kind == 0:
            file.unlink(missing_ok=True)
            file.symlink_to(rng.choice(("nowhere", "/dev/zero", file.name, "/etc/hostname")))
            if file.exists() and not file.is_file():
                file.unlink()
        try:
            with writing(file) as stream:
                stream.write(text := f"{number}\n" * rng.randrange(5000))
                if kind == 1:
                    raise OSError(errno.ENOSPC, "full")
            whole = text
        except OSError as error:
            assert error.filename == str(file)  # noqa: PT017 - it may also succeed
            continue
        assert file.read_text() == whole
        assert not file.is_symlink()
    assert len(list(tmp_path.iterdir())) <= 1


def test_reports_and_demos_write_no_file_otherwise() -> None:
    """Rooms whose files are for users: nothing there opens a file to write, but through this module."""
    found = set()
    rooms = ("reports", "demo", "conformance", "sweeps", "cli", "web", "experiments/running", "workloads/training")
    for room in (*(f"mrc_lab/{room}" for room in rooms), "mrc_host/agent"):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    text = ast.unparse(node)
                    whose = getattr(node.func, "attr", getattr(node.func, "id", ""))
                    writes = "open(" in text[:60] and any(f"'{mode}'" in text for mode in ("w", "wb", "a", "ab", "x"))
                    ours = text.startswith(
                        ("write_text(", "open(written_files.create(", "open(fd, ", "open(os.devnull")
                    )
                    writes = writes or "os.O_CREAT" in text
                    if whose in ("write_text", "write_bytes", "open") and (writes or whose != "open") and not ours:
                        found.add(str(path.relative_to(ROOT)))
    # a token in a folder of our own, a log that the ranks of a job share, and a claim that is locked while it is there
    known = {"mrc_lab/cli/run.py", "mrc_lab/workloads/training/worker.py", "mrc_lab/reports/resumable_folder.py"}
    assert found <= known
