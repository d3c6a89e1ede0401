import asyncio
import threading
from typing import Any

import pytest
from finsy.proto import p4r
from hypothesis import given
from hypothesis import strategies as st

from p4runtime_shim.errors import BuildError
from p4runtime_shim.server.pipeline_config import PipelineConfigLoader, unwrap
from tests.p4runtime_shim.server import sample
from tests.waiting import until_async


def config(data: bytes) -> p4r.ForwardingPipelineConfig:
    return p4r.ForwardingPipelineConfig(p4info=sample.p4info(), p4_device_config=data)


def test_concurrent_pushes_compile_once_and_share() -> None:
    loaded: list[str] = []
    release = threading.Event()

    def load(text: str) -> str:
        loaded.append(text)
        release.wait(5)
        return f"pipeline {len(loaded)}"

    async def work() -> None:
        programs = PipelineConfigLoader(load)
        pushes = [asyncio.create_task(programs.realize(config(sample.device_config()))) for _ in range(5)]
        await until_async(lambda: loaded, "the compilation to begin")
        pushes[0].cancel()  # a client that disconnects does not end the compilation
        release.set()
        done = await asyncio.gather(*pushes[1:])
        assert {item.pipeline for item in done} == {"pipeline 1"}
        assert len({id(item.schema) for item in done}) == 1
        assert len(loaded) == 1

    asyncio.run(work())


def test_switches_with_the_same_config_share_a_program() -> None:
    async def work() -> None:
        programs = PipelineConfigLoader(str)
        one, other = [await programs.realize(config(sample.device_config())) for _ in range(2)]
        assert one.device_config is other.device_config
        assert one.p4info is other.p4info
        data = sample.device_config()
        wrapped = b"\x1a" + _varint(len(data)) + data  # field 3 of a p4.tmp.P4DeviceConfig
        third = await programs.realize(config(wrapped))
        assert third.pipeline is one.pipeline
        assert third.device_config == wrapped, "a client reads what it has written"

    asyncio.run(work())


def _varint(value: int) -> bytes:
    head = b""
    while value > 0x7F:
        head, value = head + bytes([value & 0x7F | 0x80]), value >> 7
    return head + bytes([value])


def test_failures_are_not_cached() -> None:
    attempts = 0

    def load(_: str) -> Any:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise BuildError("no compiler")
        return "pipeline"

    async def work() -> None:
        programs = PipelineConfigLoader(load)
        with pytest.raises(BuildError):
            await programs.realize(config(sample.device_config()))
        assert (await programs.realize(config(sample.device_config()))).pipeline == "pipeline"

    asyncio.run(work())


def test_unused_programs_are_released() -> None:
    loaded: list[str] = []

    async def work() -> None:
        programs = PipelineConfigLoader(lambda text: loaded.append(text) or text)
        for n in range(40):
            await programs.program(b"{}" + b" " * n)
        await programs.program(b"{}")
        await programs.program(b"{}" + b" " * 39)
        assert len(loaded) == 41

    asyncio.run(work())


@given(st.binary(max_size=64))
def test_unwrapping_accepts_any_bytes(data: bytes) -> None:
    assert isinstance(unwrap(data), bytes)


def test_plain_json_is_unchanged_by_unwrapping() -> None:
    assert unwrap(b' \n{"a": 1}') == b' \n{"a": 1}'
    assert unwrap(b"\x1a\x02{}") == b"{}"
    assert unwrap(b"\x08\x01\x12\x01x\x1a\x02{}") == b"{}"
