"""The cache of compiled objects: nothing in it is loaded that is not whole, or that others could have written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from p4runtime_shim import build, object_cache
from p4runtime_shim.errors import BuildError
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim.builder import Builder, send_to
from tests.p4runtime_shim.conftest import FAST


def program(port: int) -> str:
    builder = Builder()
    builder.run(builder.action("a", [send_to(port)]))
    return builder.text()


def forwards(folder: Path, port: int) -> bool:
    with EmbeddedSwitch(Pipeline.load(program(port), cache=folder, options=FAST), ports=range(4), seed=0) as switch:
        switch.receive(0, bytes(64), 1)
        return switch.transmit(port, 1) == bytes(64)


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
def test_a_damaged_object_is_rebuilt(damage, cache: Path) -> None:
    path = build.build(program(1), cache=cache, options=FAST)
    engine = build.build_engine(cache=cache, options=FAST)
    before = [(item, item.stat().st_ino) for item in (path, engine)]
    for item in (path, engine):
        damage(item)
    assert forwards(cache, 1)
    assert all(object_cache.is_whole(item) and item.stat().st_ino != number for item, number in before)


@pytest.mark.usefixtures("small_engine")
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
    build.build_engine(cache=tmp_path, options=FAST)
    assert done == ["flush out.so", "name", "flush switch"]


@pytest.mark.usefixtures("small_engine")
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o707])
@pytest.mark.parametrize("part", ["", "cache", "cache/switch"])
def test_a_folder_writable_by_others_is_refused(mode: int, part: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / "switch").mkdir(parents=True, mode=0o700)
    (tmp_path / part).chmod(mode)
    if part == "" and mode & 0o1000:  # as /tmp is: others may add files there, not replace ours
        build.build_engine(cache=cache, options=FAST)
        return
    with pytest.raises(BuildError, match=r"is writable by everybody.*set XDG_CACHE_HOME"):
        build.build_engine(cache=cache, options=FAST)
    assert not list(cache.rglob("*.so"))


def test_a_folder_of_another_group_is_refused(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    os.chown(tmp_path, 0, 54321)
    tmp_path.chmod(0o770)
    with pytest.raises(BuildError, match="group 54321"):
        build.build_engine(cache=tmp_path, options=FAST)


@pytest.mark.parametrize("part", ["", "cache", "cache/switch"])
def test_a_folder_of_another_user_is_refused(part: str, tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    (tmp_path / "cache" / "switch").mkdir(parents=True)
    os.chown(tmp_path / part, 54321, -1)
    with pytest.raises(BuildError, match="user 54321"):
        build.build_engine(cache=tmp_path / "cache", options=FAST)


def test_an_object_writable_by_others_is_rebuilt(cache: Path) -> None:
    path = build.build(program(1), cache=cache, options=FAST)
    path.chmod(0o666)
    assert build.build(program(1), cache=cache, options=FAST).stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("small_engine")
def test_cache_folders_are_created_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = build.build_engine(cache=tmp_path / "cache", options=FAST)
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


def test_least_recently_used_objects_are_evicted(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(object_cache.KEPT, "program-*.so", 2)
    first = build.build(program(1), cache=cache, options=FAST)
    second = build.build(program(2), cache=cache, options=FAST)
    assert build.build(program(1), cache=cache, options=FAST) == first
    third = build.build(program(3), cache=cache, options=FAST)
    assert set(cache.rglob("program-*.so")) == {first, third}
    assert build.build(program(2), cache=cache, options=FAST) == second


def test_an_unused_program_is_unloaded(cache: Path) -> None:
    def loaded(path: Path) -> bool:
        return path.name in Path("/proc/self/maps").read_text()

    pipeline = Pipeline.load(program(1), cache=cache, options=FAST)
    path = pipeline.path
    with EmbeddedSwitch(pipeline, ports=range(4), seed=0) as switch:
        del pipeline
        assert loaded(path)
        switch.receive(0, bytes(64), 1)
        assert switch.transmit(1, 1) == bytes(64)
        switch.set_pipeline(None)
        assert not loaded(path)
