"""Rules that say which links of a fabric are different: slower or faster, longer, or missing.

A rule is about one link class (``nic-t0``, ``t0-t1``, ``t1-t2``), or about the links whose name matches a pattern such
as ``t0-1:t1-*@p0`` or ``h3@p1``. Rules are applied in the order given; a later one wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from mrc_common.declared.field_types import a_rate, a_time
from mrc_common.declared.sections import key
from topologies.errors import FabricError
from topologies.fabric import lower_end_first, matching
from topologies.fabric_checks import MAX_DELAY_NS
from topologies.parts import Link, LinkKind

CLASSES = tuple(kind.value for kind in LinkKind)


@dataclass(frozen=True, slots=True)
class LinkRule:
    """What is different about some links: `rate_bps` and `delay_ns` where given; with `missing` they are not there."""

    links: str = ""
    rate_bps: int | None = key(a_rate(), "their rate", name="rate", default=None)
    delay_ns: int | None = key(a_time(0, MAX_DELAY_NS), "their propagation delay", name="delay", default=None)
    missing: bool = False


def apply_rules(links: Mapping[str, Link], rules: Iterable[LinkRule]) -> dict[str, Link]:
    """The links that are left, changed as the rules say. FabricError for a rule that no link matches."""
    changed, missing = dict(links), set()
    for rule in rules:
        found = matching_names(links, rule.links)
        if not found:
            raise FabricError(_no_match(links, rule.links))
        for name in found:
            link = changed[name]
            missing.discard(name)
            if rule.missing:
                missing.add(name)
            changed[name] = replace(
                link,
                rate_bps=link.rate_bps if rule.rate_bps is None else rule.rate_bps,
                delay_ns=link.delay_ns if rule.delay_ns is None else rule.delay_ns,
            )
    return {name: link for name, link in changed.items() if name not in missing}


def matching_names(links: Mapping[str, Link], pattern: str) -> list[str]:
    """Names of the links that a rule about `pattern` is about."""
    if pattern in CLASSES:
        return [name for name, link in links.items() if link.kind.value == pattern]
    return [link.name for link in matching(links, lower_end_first(pattern))]


def _no_match(links: Mapping[str, Link], pattern: str) -> str:
    if pattern in CLASSES:
        return f"there are no {pattern} links in this fabric"
    present = [kind.value for kind in LinkKind if any(link.kind is kind for link in links.values())]
    return f"no link matches {pattern!r}: names are as in {next(iter(links))}, classes are {', '.join(present)}"


def ports_rules(hosts: str, ports: int, planes: int) -> list[LinkRule]:
    """Rules for hosts, by name or pattern, that have ports in the first `ports` of `planes` planes only.

    FabricError when there are not so many.
    """
    if ports > planes:
        raise FabricError(f"{hosts!r} cannot have ports in {ports} planes: there are {planes}")
    return [LinkRule(f"{hosts}@p{plane}", missing=True) for plane in range(ports, planes)]
