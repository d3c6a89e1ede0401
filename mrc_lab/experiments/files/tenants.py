"""The entries of `workloads`: several workloads in one run, each a tenant with a name and a transport of its own.

An entry has the keys of its kind of workload, and `name` and `transport` beside them. What a tenant says of the
transport is laid over what the file says, as a variant is; a tenant of another type takes nothing of that. Settings of
NICs (:data:`OF_NICS`) cannot differ, since tenants on the same host share its NIC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from mrc_common.declared.document import Value
from mrc_common.declared.field_types import FieldType, JsonSchema, Text
from mrc_common.declared.overlay import overlay, without
from mrc_common.declared.sections import Section, TaggedUnion, check_keys, override_schema
from mrc_lab.experiments.files.element_names import read_name

OF_NICS = ("spraying", "path_selection", "settings")


@dataclass(frozen=True, slots=True)
class TenantPart:
    """A tenant as it is written; `transport` is read once it is known what the file says."""

    name: str
    workload: Any
    transport: Value | None
    place: Value


@dataclass(frozen=True)
class TenantEntry(FieldType):
    """A workload of one of `kinds`, with a name and perhaps a `transport`."""

    kinds: Mapping[str, type[Any]]
    transport: type[Any]

    def read(self, value: Value) -> TenantPart:
        """The tenant; FileError when it does not fit."""
        members = value.items()
        if "name" not in members:
            raise value.error("name is missing: what this tenant is called")
        name = read_name(members["name"])
        transport = members.get("transport")
        if transport is not None:
            self._check(transport)
        rest = Value(without(value.node, "name", "transport"), value.source, value.key)
        return TenantPart(name, TaggedUnion(self.kinds).read(rest), transport, value)

    def _check(self, transport: Value) -> None:
        members = transport.items()
        for name in OF_NICS:
            if name in members:
                raise members[name].error(
                    "belongs to NICs, which tenants share: write it under transport at the top of the file"
                )
        known = [name for name in Section(self.transport).schema()["properties"] if name not in OF_NICS]
        check_keys(transport, members, known)

    def schema(self) -> JsonSchema:
        """One of several objects, each with a name."""
        transport = override_schema(Section(self.transport).schema())
        properties = {name: part for name, part in transport["properties"].items() if name not in OF_NICS}
        beside = {
            "name": {"description": "what the tenant is called", **Text().schema()},
            "transport": {
                **transport,
                "description": "the tenant's transport, laid over that of the file",
                "properties": properties,
            },
        }
        parts: list[JsonSchema] = TaggedUnion(self.kinds).schema()["oneOf"]
        for part in parts:
            part["properties"] = {**beside, **part["properties"]}
            part["required"] = ["name", *part["required"]]
        return {"oneOf": parts}


def transport_of(tenant: TenantPart, base: Value | None, kind: type[Any]) -> Any:
    """The transport of a tenant, a `kind`; `base` is what the file says of it."""
    own = tenant.transport
    if base is None:
        return kind() if own is None else Section(kind).read(own)
    if own is None:
        return Section(kind).read(base)
    shared: Any = Section(kind).read(base)
    asked = own.items().get("type")
    if asked is not None and asked.text().strip() != shared.type:
        return Section(kind).read(own)
    node: yaml.Node = overlay(base.node, own.node)
    return Section(kind).read(Value(node, own.source, own.key))
