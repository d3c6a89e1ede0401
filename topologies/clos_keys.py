"""Types of the keys of a Clos in files: racks, ports, rules for links, address prefixes, protocol choices."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv6Network
from typing import TYPE_CHECKING, Any

from mrc_common.declared.field_types import EnumMember, FieldType, Integer, JsonSchema, Scalar, Text
from mrc_common.declared.sections import Instance, MappingOf, OrWord, Section, SectionKey
from mrc_host.config import Dscp, EvOrder, ProtocolSettings
from topologies.fabric_checks import MAX_PER_KIND, MAX_PLANES
from topologies.link_rules import LinkRule

if TYPE_CHECKING:  # a command that reads no file does without YAML
    from mrc_common.declared.document import Value

FROM_RACKS = ("pods", "t0", "hosts")

# What one may look for in vain, with what to write instead.
_ALL_SIX = "T0, T1, T2, T1, T0 and the NIC take all six uSIDs of an address"
_NOT_KEYS = {
    "t3": f"a fabric has three tiers at most: {_ALL_SIX}",
    "tiers": f"the number of tiers follows from t2: without it two, with it three, which is the most, since {_ALL_SIX}",
    "clusters": (
        "clusters are pods that T2s join: write pods, t2, and the rate and delay of links to T2s. Clusters that have"
        f" three tiers themselves would need gateways that re-encapsulate, which are not there, since {_ALL_SIX}"
    ),
}


@dataclass(frozen=True)
class ClosSection(Section):
    """A Clos in a file, with racks or with the numbers that follow from them."""

    def read(self, value: Value) -> Any:
        """A :class:`topologies.clos.Clos`, with the numbers that follow from racks; t0 is that of the largest pod."""
        members = value.items()
        for name, why in _NOT_KEYS.items():
            if name in members:
                raise members[name].error(why)
        for name in FROM_RACKS if "racks" in members else ():
            if name in members:
                raise members[name].error("follows from racks: leave it out")
        found = super().read(value)
        if found.racks is None:
            return found
        racks = found.racks
        return replace(found, hosts=sum(map(sum, racks)), t0=max(map(len, racks)), pods=len(racks))

    def needs(self, declared: SectionKey, members: Collection[str]) -> bool:
        """Not what follows from racks."""
        return super().needs(declared, members) and not ("racks" in members and declared.name in FROM_RACKS)


@dataclass(frozen=True)
class Racks(FieldType):
    """Hosts of each T0, in a list, or in one for each pod."""

    def read(self, value: Value) -> tuple[tuple[int, ...], ...]:
        """Pods of racks."""
        elements = list(value.elements()) if value.is_list else []
        if not elements:
            raise value.error("must list the hosts of each T0, as in [4, 2], or of each pod, as in [[4, 2], [1]]")
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
class HostPattern(Text):
    """A host, by name or pattern."""

    def check(self, found: Any, written: str = "") -> str:
        """A str."""
        if not isinstance(found, str) or not found.startswith("h"):
            raise ValueError("is no host: write a name or pattern such as h3 or h[5-8]")
        return found


PORTS = MappingOf(Integer(1, MAX_PLANES), HostPattern())


@dataclass(frozen=True)
class LinkRules(FieldType):
    """Rules for links, by class, name or pattern."""

    def read(self, value: Value) -> tuple[LinkRule, ...]:
        """The rules, in order."""
        rules = _LINK_RULES.read(value)
        return tuple(
            LinkRule(links, missing=True) if rule is None else replace(rule, links=links) for links, rule in rules
        )

    def schema(self) -> JsonSchema:
        """An object."""
        return _LINK_RULES.schema()


_LINK_RULES = MappingOf(OrWord("missing", Section(LinkRule)))


@dataclass(frozen=True)
class AddressPrefix(Scalar):
    """An IPv6 prefix of a length, as a number of so many bits."""

    length: int

    def _parse(self, word: str) -> IPv6Network | None:
        try:
            return IPv6Network(word.strip())
        except ValueError:
            return None

    def check(self, found: Any, written: str = "") -> int:
        """An int, of a network of this length."""
        if not isinstance(found, IPv6Network) or found.prefixlen != self.length:
            raise ValueError(f"must be an IPv6 prefix of length {self.length} in quotes, not {written[:80]!r}")
        return int(found.network_address) >> (128 - self.length)

    def schema(self) -> JsonSchema:
        """A string."""
        return {"type": "string", "pattern": f"/{self.length}$"}


@dataclass(frozen=True)
class DscpValues(Instance):
    """DSCP values of the traffic roles, which all differ."""

    def read(self, value: Value) -> Dscp:
        """The values, with defaults for those that are not given."""
        found: Dscp = super().read(value)
        roles = dataclasses.asdict(found)
        if len(set(roles.values())) != len(roles):
            raise value.error(f"dscp values must all differ, but are {roles}")
        return found


_PROTOCOL: Mapping[str, FieldType] = {
    "udp_port": Integer(1, 65535),
    "ev_order": EnumMember(EvOrder),
    "hop_limit": Integer(1, 255),
    "dscp": DscpValues(Dscp, {role.name: Integer(0, 63) for role in dataclasses.fields(Dscp)}),
}
PROTOCOL = Instance(ProtocolSettings, _PROTOCOL)
