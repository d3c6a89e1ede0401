"""The cache of compiled objects: nothing in it is loaded that is not whole, or that others could have written."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from mrc_common.c_build import object_cache
from mrc_common.c_build.errors import CBuildError
from mrc_common.c_build.shared_object import BuildOptions, cached, compile_shared

FAST = BuildOptions(flags=("-O0",))


def made(cache: Path, number: int = 1, options: BuildOptions = FAST) -> Path:
    """The object of a function that returns this number."""
    target = cached(f"thing-{options.digest((), number)}", cache)
    return compile_shared(target, [], options, {"thing.c": f"int thing(void) {{ return {number}; }}"})


def returned(path: Path) -> int:
    return int(ctypes.CDLL(str(path)).thing())


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def one_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def without_seal(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 42)


@pytest.mark.parametrize("damage", [cut, emptied, one_bit, without_seal])
def test_a_damaged_object_is_rebuilt(damage, tmp_path: Path) -> None:
    path = made(tmp_path)
    before = path.stat().st_ino
    damage(path)
    assert returned(made(tmp_path)) == 1
    assert object_cache.is_whole(path)
    assert path.stat().st_ino != before


def test_objects_are_synced_before_they_are_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def flushed(fd: int) -> None:
        done.append("flush " + Path(os.readlink(f"/proc/self/fd/{fd}")).name.partition("-")[0])
        fsync(fd)

    def named(path: Path, target: Path) -> Path:
        done.append("name")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", named)
    made(tmp_path)
    assert done == ["flush out.so", "name", "flush switch"]


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o707])
@pytest.mark.parametrize("part", ["", "cache", "cache/switch"])
def test_a_folder_writable_by_others_is_refused(mode: int, part: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "switch").mkdir(parents=True, mode=0o700)
    (tmp_path / part).chmod(mode)
    if part == "" and mode & 0o1000:  # as /tmp is: others may add files there, not replace ours
        made(cache)
        return
    with pytest.raises(CBuildError, match=r"is writable by everybody.*set XDG_CACHE_HOME"):
        made(cache)
    assert not list(cache.rglob("*.so"))


def test_a_folder_of_another_group_is_refused(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    os.chown(tmp_path, 0, 54321)
    tmp_path.chmod(0o770)
    with pytest.raises(CBuildError, match="group 54321"):
        made(tmp_path)


@pytest.mark.parametrize("part", ["", "cache", "cache/switch"])
def test_a_folder_of_another_user_is_refused(part: str, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    (tmp_path / "cache" / "switch").mkdir(parents=True)
    os.chown(tmp_path / part, 54321, -1)
    with pytest.raises(CBuildError, match="user 54321"):
        made(tmp_path / "cache")


def test_an_object_writable_by_others_is_rebuilt(tmp_path: Path) -> None:
    path = made(tmp_path, 1)
    path.chmod(0o666)
    assert made(tmp_path, 1).stat().st_mode & 0o777 == 0o600


def test_cache_folders_are_created_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = made(tmp_path / "cache")
    finally:
        os.umask(before)
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_root_ignores_the_home_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert object_cache.default_cache() == tmp_path / ".cache" / "mrc-testbed"
    os.chown(tmp_path, 54321, -1)
    assert object_cache.default_cache() == Path("/root/.cache/mrc-testbed")


def test_least_recently_used_objects_are_evicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(object_cache.KEPT, "thing", 2)
    first = made(tmp_path, 1)
    second = made(tmp_path, 2)
    assert made(tmp_path, 1) == first
    third = made(tmp_path, 3)
    assert set(tmp_path.rglob("thing-*.so")) == {first, third}
    assert made(tmp_path, 2) == second
