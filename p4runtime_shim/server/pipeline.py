"""Programs as clients push them: BMv2 JSON in `p4_device_config`, and the P4Info beside it.

A fabric pushes the same two to every switch, so both are parsed, compiled and loaded once for the process and shared.
Compilation happens in a thread: other devices are served meanwhile.
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
from p4runtime_shim.server.errors import RpcError, invalid
from p4runtime_shim.server.p4info import Schema
from p4runtime_shim.server.target import LoadProgram

_KEEP = 16  # programs and schemas remembered; a switch in use keeps its own alive anyway


@dataclass(frozen=True, slots=True)
class Program:
    """A loaded BMv2 JSON, and the names of its tables and of all that a client addresses."""

    pipeline: Any
    names: frozenset[str]
    tables: frozenset[str]


@dataclass(frozen=True, slots=True)
class Config:
    """A pipeline configuration that the target can realize."""

    message: p4r.ForwardingPipelineConfig
    schema: Schema
    pipeline: Any


class Programs:
    """Loads configurations, each part once."""

    def __init__(self, load: LoadProgram) -> None:
        self._load = load
        self._programs: OrderedDict[bytes, asyncio.Task[Program]] = OrderedDict()
        self._schemas: OrderedDict[bytes, Schema] = OrderedDict()

    async def realize(self, message: p4r.ForwardingPipelineConfig) -> Config:
        """The configuration, verified; RpcError or SwitchError says why it cannot be."""
        if not message.HasField("p4info"):
            raise invalid("the pipeline config has no P4Info")
        if not message.p4_device_config:
            raise invalid("the pipeline config has no p4_device_config; put the BMv2 JSON there")
        schema = self._schema(message.p4info)
        program = await self.program(unwrap(message.p4_device_config))
        schema = _present(schema, program.names, program.tables)
        kept = p4r.ForwardingPipelineConfig()
        kept.CopyFrom(message)
        return Config(kept, schema, program.pipeline)

    async def program(self, data: bytes) -> Program:
        """The loaded program for a BMv2 JSON file's bytes."""
        if len(data) > limits.MAX_PROGRAM_BYTES:
            raise invalid(f"p4_device_config has {len(data)} bytes; the most is {limits.MAX_PROGRAM_BYTES}")
        key = hashlib.sha256(data).digest()
        task = self._programs.get(key)
        if task is None:
            task = asyncio.create_task(asyncio.to_thread(self._load_now, data))
            self._programs[key] = task
        self._programs.move_to_end(key)
        try:
            program = await asyncio.shield(task)
        except BaseException:
            if task.done():  # failed: the next push may fare better (the compiler was installed, say)
                self._programs.pop(key, None)
            raise
        while len(self._programs) > _KEEP:
            self._programs.popitem(last=False)
        return program

    def _load_now(self, data: bytes) -> Program:
        try:
            text = data.decode("utf-8")
            document = json.loads(text)
        except (UnicodeDecodeError, ValueError) as error:
            raise invalid(f"p4_device_config is not BMv2 JSON: {error}") from None
        except RecursionError:
            raise invalid("p4_device_config is not BMv2 JSON: it is nested too deeply") from None
        if not isinstance(document, dict):
            raise invalid("p4_device_config is not BMv2 JSON: it is no object")
        try:
            return Program(self._load(text), _names(document), _table_names(document))
        except RecursionError:
            raise invalid("p4_device_config: its expressions are nested too deeply") from None

    def _schema(self, message: p4i.P4Info) -> Schema:
        key = hashlib.sha256(message.SerializeToString(deterministic=True)).digest()
        if key not in self._schemas:
            self._schemas[key] = p4info.build(message)
        self._schemas.move_to_end(key)
        while len(self._schemas) > _KEEP:
            self._schemas.popitem(last=False)
        return self._schemas[key]


def unwrap(data: bytes) -> bytes:
    """The BMv2 JSON in a device config: the bytes themselves, or field 3 of a p4.tmp.P4DeviceConfig, as in BMv2."""
    if data.lstrip()[:1] == b"{":
        return data
    try:
        return _field_3(data)
    except (IndexError, ValueError):
        return data  # neither; the JSON parser will say so


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
    """Names of everything in the JSON that a client addresses."""
    items = [
        item
        for key in ("actions", "counter_arrays", "meter_arrays", "register_arrays")
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
    """The schema without what p4c removed from the program; INVALID_ARGUMENT when the two belong to other programs."""
    for what, items in (
        ("action profile", [item for item in schema.profiles.values() if not item.with_selector]),
        ("counter", schema.counters.values()),
        ("meter", schema.meters.values()),
        ("register", schema.registers.values()),
    ):
        for item in items:
            if item.name not in names:
                raise _other_program(what, item.name)
    absent = [table for table in schema.tables.values() if table.name not in names]
    # Tables that p4c makes for its own use have no control's name before theirs.
    if absent and len(absent) == len(schema.tables) and any("." in name for name in tables):
        raise _other_program("table", absent[0].name)
    removed = {table.id: table.name for table in absent}
    removed |= {item.id: item.name for item in schema.profiles.values() if item.name not in names}
    return schema.without(removed) if removed else schema


def _other_program(what: str, name: str) -> RpcError:
    return invalid(f"the P4Info has {what} {name}, the JSON has not; give the two files of one compilation")
