"""Forwarding pipeline configs: the BMv2 JSON in `p4_device_config`, and its P4Info.

A fabric pushes the same config to every switch, so program and P4Info are parsed, compiled and loaded once per process
and shared. Compilation runs in a thread, so that other devices are served meanwhile.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from finsy.proto import p4i, p4r

from p4runtime_shim import limits
from p4runtime_shim.server import p4info
from p4runtime_shim.server.p4info import Schema
from p4runtime_shim.server.rpc_errors import RpcError, invalid
from p4runtime_shim.server.switch_interface import LoadProgram

_KEEP = 16  # cached programs and schemas; those in use stay alive anyway


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """A loaded BMv2 JSON, the names of its tables, and the names of everything that a client can address.

    `device_config` is the `p4_device_config` that it was first loaded from.
    """

    pipeline: Any
    device_config: bytes
    names: frozenset[str]
    tables: frozenset[str]


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    """A verified pipeline config; `cookie` is None if the client set none.

    Switches with the same config share its parts, which are far larger than a switch's own state.
    """

    p4info: p4i.P4Info
    device_config: bytes
    cookie: int | None
    schema: Schema
    pipeline: Any


class PipelineConfigLoader:
    """Verifies pipeline configs; loads each program and P4Info once."""

    def __init__(self, load: LoadProgram) -> None:
        self._load = load
        self._programs: OrderedDict[bytes, asyncio.Task[LoadedProgram]] = OrderedDict()
        self._schemas: OrderedDict[bytes, tuple[p4i.P4Info, Schema]] = OrderedDict()

    async def realize(self, message: p4r.ForwardingPipelineConfig) -> PipelineConfig:
        """Verify a config; raises RpcError or SwitchError."""
        if not message.HasField("p4info"):
            raise invalid("the pipeline config has no P4Info")
        if not message.p4_device_config:
            raise invalid("the pipeline config has no p4_device_config; put the BMv2 JSON there")
        p4info_message, schema = self._schema(message.p4info)
        device_config = message.p4_device_config
        program = await self.program(device_config)
        if device_config == program.device_config:
            device_config = program.device_config
        schema = _present(schema, program.names, program.tables)
        cookie = message.cookie.cookie if message.HasField("cookie") else None
        return PipelineConfig(p4info_message, device_config, cookie, schema, program.pipeline)

    async def program(self, device_config: bytes) -> LoadedProgram:
        """The loaded program for a `p4_device_config` or a BMv2 JSON file's bytes."""
        data = unwrap(device_config)
        if len(data) > limits.MAX_PROGRAM_BYTES:
            raise invalid(f"p4_device_config has {len(data)} bytes; the maximum is {limits.MAX_PROGRAM_BYTES}")
        key = hashlib.sha256(data).digest()
        task = self._programs.get(key)
        if task is None:
            task = asyncio.create_task(asyncio.to_thread(self._load_now, data, device_config))
            self._programs[key] = task
        self._programs.move_to_end(key)
        try:
            program = await asyncio.shield(task)
        except BaseException:
            if task.done():  # failed: the next push may succeed (e.g. with the compiler installed)
                self._programs.pop(key, None)
            raise
        while len(self._programs) > _KEEP:
            self._programs.popitem(last=False)
        return program

    def _load_now(self, data: bytes, device_config: bytes) -> LoadedProgram:
        try:
            text = data.decode("utf-8")
            document = json.loads(text)
        except (UnicodeDecodeError, ValueError) as error:
            raise invalid(f"p4_device_config is not BMv2 JSON: {error}") from None
        except RecursionError:
            raise invalid("p4_device_config is not BMv2 JSON: it is nested too deeply") from None
        if not isinstance(document, dict):
            raise invalid("p4_device_config is not BMv2 JSON: it is not an object")
        try:
            return LoadedProgram(self._load(text), device_config, _names(document), _table_names(document))
        except RecursionError:
            raise invalid("p4_device_config: its expressions are nested too deeply") from None

    def _schema(self, message: p4i.P4Info) -> tuple[p4i.P4Info, Schema]:
        key = hashlib.sha256(message.SerializeToString(deterministic=True)).digest()
        if key not in self._schemas:
            kept = p4i.P4Info()
            kept.CopyFrom(message)
            self._schemas[key] = kept, p4info.build(kept)
        self._schemas.move_to_end(key)
        while len(self._schemas) > _KEEP:
            self._schemas.popitem(last=False)
        return self._schemas[key]


def unwrap(data: bytes) -> bytes:
    """The BMv2 JSON in a device config: all bytes, or field 3 of a p4.tmp.P4DeviceConfig, as in BMv2."""
    if data.lstrip()[:1] == b"{":
        return data
    try:
        return _field_3(data)
    except (IndexError, ValueError):
        return data  # neither; the JSON parser reports the error


def _field_3(data: bytes) -> bytes:
    at = 0
    while True:
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            _, at = _varint(data, at)
        elif tag & 7 == 2:
            length, at = _varint(data, at)
            if tag >> 3 == 3:
                return data[at : at + length]
            at += length
        else:
            raise ValueError("not a P4DeviceConfig")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def _names(document: dict[str, Any]) -> frozenset[str]:
    """Names of everything in the JSON that a client can address."""
    items = [
        item
        for key in ("actions", "counter_arrays", "meter_arrays", "register_arrays", "parse_vsets")
        for item in _list(document, key)
    ]
    for pipeline in _list(document, "pipelines"):
        items += _list(pipeline, "action_profiles")
    return _named(items) | _table_names(document)


def _table_names(document: dict[str, Any]) -> frozenset[str]:
    return _named(table for pipeline in _list(document, "pipelines") for table in _list(pipeline, "tables"))


def _named(items: Iterable[dict[str, Any]]) -> frozenset[str]:
    return frozenset(item["name"] for item in items if isinstance(item.get("name"), str))


def _list(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = document.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _present(schema: Schema, names: frozenset[str], tables: frozenset[str]) -> Schema:
    """The schema without what p4c removed; INVALID_ARGUMENT if P4Info and JSON belong to different programs."""
    for what, items in (
        ("action profile", [item for item in schema.profiles.values() if not item.with_selector]),
        ("counter", schema.counters.values()),
        ("meter", schema.meters.values()),
        ("register", schema.registers.values()),
        ("value set", schema.value_sets.values()),
    ):
        for item in items:
            if item.name not in names:
                raise _other_program(what, item.name)
    absent = [table for table in schema.tables.values() if table.name not in names]
    # Tables that p4c creates for internal use have no control's name as prefix.
    if absent and len(absent) == len(schema.tables) and any("." in name for name in tables):
        raise _other_program("table", absent[0].name)
    removed = {table.id: table.name for table in absent}
    removed |= {item.id: item.name for item in schema.profiles.values() if item.name not in names}
    return schema.without(removed) if removed else schema


def _other_program(what: str, name: str) -> RpcError:
    return invalid(f"the P4Info has {what} {name}, but the JSON does not; use the two files of one compilation")
