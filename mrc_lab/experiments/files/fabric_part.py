"""The fabric of an experiment: the numbers of a Clos, rules for links that differ, or a fabric file (docs/fabrics.md).

The keys are those of a fabric file (`topologies.loader`), with times and rates as everywhere in experiments. A fabric
file gives all of them; beside it there can be `delay`, for links that have none of their own, `kernel_switches`, which
are added to the file's, and flow control and queues, which are laid over the file's.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mrc_common.declared.document import Value
from mrc_common.declared.field_types import Boolean, FieldType, Integer, JsonSchema, Text, a_rate, a_time
from mrc_common.declared.sections import ListOf, MappingOf, OrWord, Section, SomeFields, key, plain_fields
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError
from topologies.fabric import DEFAULT_MTU, Fabric, LinkKind, T2Wiring, Tier
from topologies.fabric_checks import MAX_PER_KIND, MAX_PLANES
from topologies.link_rules import LinkRule, ports_rules
from topologies.loader import load_file
from topologies.queues import QueueProfile

MAX_MTU = 65_000  # what a switch's packet buffers hold, but for headers
BESIDE_FILE = ("file", "delay", "kernel_switches", "pfc", "queues")


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
            return FabricFromFile(path, load_file(Path(value.source.name).parent / path))
        except FabricError as error:
            raise value.error(str(error)) from None

    def schema(self) -> JsonSchema:
        """A string."""
        return {"type": "string"}


@dataclass(frozen=True)
class Racks(FieldType):
    """Hosts of each T0, in a list, or in one for each pod."""

    def read(self, value: Value) -> tuple[tuple[int, ...], ...]:
        """Pods of racks."""
        elements = list(value.elements())
        if not elements:
            raise value.error("lists the hosts of each T0, as in [4, 2], or of each pod, as in [[4, 2], [1]]")
        nested = [element for element in elements if element.is_list]
        if nested and len(nested) < len(elements):
            raise value.error("has numbers of hosts, or lists of them, not both")
        pods = [list(element.elements()) for element in nested] or [elements]
        return tuple(tuple(Integer(1, MAX_PER_KIND).read(rack) for rack in pod) for pod in pods)

    def schema(self) -> JsonSchema:
        """An array of numbers, or of such arrays."""
        rack: JsonSchema = {"type": "array", "items": Integer(1, MAX_PER_KIND).schema(), "minItems": 1}
        return {"anyOf": [rack, {"type": "array", "items": rack, "minItems": 1}]}


@dataclass(frozen=True)
class Ports(FieldType):
    """Numbers of ports by host or pattern."""

    def read(self, value: Value) -> tuple[tuple[str, int], ...]:
        """Pairs of pattern and number."""
        members = value.items()
        for hosts, member in members.items():
            if not hosts.startswith("h"):
                raise member.error("is no host: write a name or pattern such as h3 or h[5-8]")
        return tuple((hosts, Integer(1, MAX_PLANES).read(member)) for hosts, member in members.items())

    def schema(self) -> JsonSchema:
        """An object of numbers."""
        return {"type": "object", "properties": {}, "additionalProperties": Integer(1, MAX_PLANES).schema()}


@dataclass(frozen=True, slots=True)
class LinkPart:
    """What is different about some links."""

    rate: int | None = key(a_rate(), "their rate", default=None)
    delay: int | None = key(a_time(0, 10**9), "their propagation delay (in simulation)", default=None)


@dataclass(frozen=True, slots=True)
class FabricPart:
    """The fabric: a multi-plane Clos (see `topologies.clos`)."""

    hosts: int = key(Integer(1), "hosts in all, a multiple of the T0s; needed without file or racks", default=0)
    planes: int = key(Integer(1, MAX_PLANES), "planes; each host has a NIC port in every one", default=1)
    t0: int = key(Integer(1), "T0 switches per plane; with pods, per pod", default=1)
    t1: int = key(Integer(0), "T1 switches per plane; with pods, per pod", default=0)
    pods: int = key(Integer(1), "pods of a fabric of three tiers", default=1)
    t2: int = key(Integer(0), "T2 switches per plane, which join the pods", default=0)
    t2_wiring: str = key(
        Text(tuple(wiring.value for wiring in T2Wiring)), "a T2 joins the T1s of one number, or all", default="groups"
    )
    rate: int = key(a_rate(), "rate of every link and direction", default=100 * 10**9)
    uplink_rate: int | None = key(a_rate(), "rate of links between switches, where it differs", default=None)
    delay: int = key(a_time(0, 10**9), "propagation delay of every link (in simulation)", default=1_000)
    links: tuple[tuple[str, LinkPart | None], ...] = key(
        MappingOf(OrWord("missing", Section(LinkPart))),
        "links that differ, by class (nic-t0, t0-t1, t1-t2), name or pattern: rate and delay, or missing",
        default=(),
    )
    file: FabricFromFile | None = key(
        FabricFile(),
        "a fabric file, beside this file; all keys but delay, kernel_switches, pfc and queues follow from it",
        default=None,
    )
    racks: tuple[tuple[int, ...], ...] = key(
        Racks(), "hosts of each T0, in a list for each pod, instead of pods, t0 and hosts", default=()
    )
    ports: tuple[tuple[str, int], ...] = key(
        Ports(), "hosts, by name or pattern, that have ports in so many planes only, the first", default=()
    )
    kernel_switches: tuple[str, ...] = key(
        ListOf(Text()), "switches, by name or pattern, that Linux itself is, instead of the P4 program", default=()
    )
    mtu: int = key(Integer(1280, MAX_MTU), "IPv6 MTU of every link", default=DEFAULT_MTU)
    pfc: bool = key(Boolean(), "priority flow control of data, see topologies.queues", default=False)
    queues: tuple[tuple[str, object], ...] = key(
        SomeFields(plain_fields(QueueProfile)), "queue signals, as topologies.queues.QueueProfile", default=()
    )


@dataclass(frozen=True)
class FabricSection(Section):
    """A :class:`FabricPart`: either by numbers or by a file, from which the numbers then come."""

    def read(self, value: Value) -> FabricPart:
        """The part; FileError when it says something twice, or not at all."""
        members = value.items()
        instead: list[tuple[str, str]] = []
        if "file" in members:
            instead = [("the file", name) for name in members if name not in BESIDE_FILE]
        elif "racks" in members:
            instead = [("racks", name) for name in ("hosts", "t0", "pods") if name in members]
        for source, name in instead:
            raise members[name].error(f"follows from {source}: leave it out")
        part: FabricPart = super().read(value)
        if part.file is not None:
            return _filled(part, part.file.fabric)
        if part.racks:
            most = max(map(len, part.racks))
            return replace(part, hosts=sum(map(sum, part.racks)), t0=most, pods=len(part.racks))
        if not part.hosts:
            raise value.error("hosts is missing: hosts in all, a multiple of the T0s")
        return part


def _filled(part: FabricPart, fabric: Fabric) -> FabricPart:
    """The part with the sizes of a file's fabric, for reports; T0s are those of the largest pod."""
    nic_rates = [link.rate_bps for link in fabric.links if link.kind is LinkKind.NIC_T0]
    return replace(
        part,
        hosts=len(fabric.nics),
        planes=fabric.planes,
        pods=fabric.pods,
        t0=max(Counter(switch.pod for switch in fabric.tier(Tier.T0, 0)).values()),
        t1=fabric.t1_per_pod,
        t2=fabric.t2_count,
        rate=max(nic_rates),
        mtu=fabric.mtu,
        pfc=part.pfc or fabric.queues.pfc,
    )


@functools.lru_cache(maxsize=4)  # the cases of a file mostly share one, and every check of them asks for it
def build_fabric(part: FabricPart, name: str = "experiment") -> Fabric:
    """The fabric that a file describes; FabricError when it cannot be."""
    own: dict[str, Any] = {} if part.file is None else dataclasses.asdict(part.file.fabric.queues)
    queues = QueueProfile(**{**own, "pfc": part.pfc, **dict(part.queues)})
    if part.file is not None:
        return replace(part.file.fabric, name=name, queues=queues).with_kernel_switches(part.kernel_switches)
    fewer_ports = [rule for hosts, ports in part.ports for rule in ports_rules(hosts, ports, part.planes)]
    rules = [
        LinkRule(links, missing=True) if rule is None else LinkRule(links, rule.rate, rule.delay)
        for links, rule in part.links
    ]
    return multi_plane_clos(
        name,
        planes=part.planes,
        t0=part.t0,
        t1=part.t1,
        hosts=part.hosts,
        pods=part.pods,
        t2=part.t2,
        t2_wiring=T2Wiring(part.t2_wiring),
        racks=part.racks or None,
        rate_bps=part.rate,
        uplink_rate_bps=part.uplink_rate,
        links=(*fewer_ports, *rules),
        kernel_switches=part.kernel_switches,
        mtu=part.mtu,
        queues=queues,
    )
