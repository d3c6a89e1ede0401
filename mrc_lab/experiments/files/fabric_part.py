"""The fabric of an experiment: the numbers of a Clos, rules for links that differ, or a fabric file (docs/fabrics.md).

The keys are those of a fabric file (`topologies.loader`), with times and rates as everywhere in experiments. A fabric
file gives all of them; beside it there can be `delay`, for links that have none of their own, `kernel_switches`, which
are added to the file's, and `reroute`, flow control and queues, which are laid over the file's.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mrc_common.declared.document import Value
from mrc_common.declared.field_types import Boolean, FieldType, JsonSchema, a_time
from mrc_common.declared.overlay import without
from mrc_common.declared.sections import Section, SomeFields, key, keys_of, like
from topologies.clos import Clos
from topologies.clos_keys import ClosSection
from topologies.errors import FabricError
from topologies.fabric import Fabric, LinkKind, Tier
from topologies.fabric_checks import MAX_DELAY_NS
from topologies.loader import load_file
from topologies.queues import QueueProfile

BESIDE_FILE = ("file", "delay", "reroute", "kernel_switches", "pfc", "queues")


@dataclass(frozen=True, slots=True)
class FabricFromFile:
    """The fabric of a file, and the file as the experiment names it."""

    path: str
    fabric: Fabric


@dataclass(frozen=True)
class FabricFile(FieldType):
    """The name of a fabric file, from where the experiment file is."""

    def read(self, value: Value) -> FabricFromFile:
        """The fabric in it."""
        path = value.text().strip()
        try:
            found = load_file(Path(value.source.name).parent / path, packets=False)  # until the backend is known
            return FabricFromFile(path, found)
        except FabricError as error:
            raise value.error(str(error)) from None

    def schema(self) -> JsonSchema:
        """A string."""
        return {"type": "string"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricPart(Clos):
    """The fabric: a multi-plane Clos (see `topologies.clos`)."""

    name: str = "experiment"  # which is no key here
    planes: int = like(Clos, "planes", default=1)
    t0: int = like(Clos, "t0", default=1)
    t1: int = like(Clos, "t1", default=0)
    hosts: int = like(Clos, "hosts", default=0)
    rate_bps: int = like(Clos, "rate_bps", default=100 * 10**9)
    delay: int = key(a_time(0, MAX_DELAY_NS), "propagation delay of every link (in simulation)", default=1_000)
    file: FabricFromFile | None = key(
        FabricFile(),
        "a fabric file, beside this file; all keys but delay, reroute, kernel_switches, pfc and queues follow from it",
        default=None,
    )
    pfc: bool = key(Boolean(), "priority flow control of data, see topologies.queues", default=False)


_FROM_NUMBERS = ClosSection(FabricPart, needed=("hosts",))
_FROM_FILE = Section(FabricPart)
_QUEUES = SomeFields({name: declared.type for name, declared in keys_of(QueueProfile).items()})


@dataclass(frozen=True)
class FabricSection(FieldType):
    """A fabric: either by numbers or by a file, from which the numbers then come."""

    def read(self, value: Value) -> FabricPart:
        """The part; FileError when it says something twice, or not at all."""
        members = value.items()
        if "file" not in members:
            part: FabricPart = _FROM_NUMBERS.read(value)
            return replace(part, queues=replace(part.queues, pfc=part.pfc or part.queues.pfc))
        for name, member in members.items():
            if name not in BESIDE_FILE:
                raise member.error("follows from the file: leave it out")
        part = _FROM_FILE.read(replace(value, node=without(value.node, "queues")))
        queues = _QUEUES.read(members["queues"]) if "queues" in members else ()
        try:
            return _filled(part, queues)
        except FabricError as error:
            raise value.error(str(error)) from None

    def schema(self) -> JsonSchema:
        """An object."""
        return _FROM_FILE.schema()


def _filled(part: FabricPart, queues: Iterable[tuple[str, Any]]) -> FabricPart:
    """The part of a file, with the sizes of its fabric, for reports; T0s are those of the largest pod."""
    assert part.file is not None, "else there is nothing to fill it with"
    fabric = part.file.fabric
    nic_rates = [link.rate_bps for link in fabric.links if link.kind is LinkKind.NIC_T0]
    pfc = {"pfc": True} if part.pfc else {}
    return replace(
        part,
        hosts=len(fabric.nics),
        planes=fabric.planes,
        pods=fabric.pods,
        t0=max(Counter(switch.pod for switch in fabric.tier(Tier.T0, 0)).values()),
        t1=fabric.t1_per_pod,
        t2=fabric.t2_count,
        rate_bps=max(nic_rates),
        reroute_ns=fabric.reroute_ns if part.reroute_ns is None else part.reroute_ns,
        mtu=fabric.mtu,
        queues=replace(fabric.queues, **{**dict(queues), **pfc}),
    )


@functools.lru_cache(maxsize=4)  # the cases of a file mostly share one, and every check of them asks for it
def build_fabric(part: FabricPart, name: str = "experiment") -> Fabric:
    """The fabric that a file describes; FabricError when it cannot be."""
    if part.file is None:
        return replace(part, name=name).fabric()
    changed = {"queues": part.queues, "reroute_ns": part.reroute_ns, "packets": part.packets}
    fabric = replace(part.file.fabric, name=name, **changed)  # type: ignore[arg-type]
    return fabric.with_kernel_switches(part.kernel_switches)
