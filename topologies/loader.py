"""A fabric file: what :func:`topologies.clos.multi_plane_clos` takes as a YAML mapping, and back (docs/fabrics.md).

    name: demo          # names the run directory and, hashed, the interfaces
    planes: 2
    t0: 2               # per plane; with pods, per pod
    t1: 4               # per plane; with pods, per pod; 0 with a single T0
    hosts: 4
    rate: 100M          # b/s of every link and direction (k, M, G)
    uplink_rate: 40M    # of links between switches, where it differs
    mtu: 4500
    usid_block: fc00::/32
    address_prefix: fd00:6d:7263::/48
    protocol:
      udp_port: 4791
      ev_order: low_in_source_port
      hop_limit: 64
      dscp: {control: 46}
    queues: {trimming: yes, trim: 100, ecn_low: 20, ecn_high: 80}    # fields of topologies.queues.QueueProfile

    pods: 2             # three tiers: so many pods,
    t2: 4               # joined by so many T2s per plane
    t2_wiring: groups   # a T2 joins the T1s of one number (groups) or all (mesh)
    racks: [[4, 2], [1, 1]]       # instead of pods, t0 and hosts: the hosts of each T0, pod by pod
    ports: {h3: 1, "h[5-8]": 2}   # hosts with ports in the first planes only
    links:              # links that differ, by class or by name or pattern; a later rule wins
      t1-t2: {rate: 400M, delay: 20us}
      t0-1:t1-0@p0: missing
    kernel_switches: [t1-0@p0, "t0-*@p1"]   # Linux itself forwards there, instead of the P4 program

Name, planes, t1, and t0 and hosts, or racks, are needed. Any mistake raises an error that names the
file and line, the key and what would be right; nothing is guessed.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any

import yaml

from mrc_common import named_files, units
from mrc_host.config import Dscp, EvOrder, ProtocolSettings
from topologies.clos import DEFAULT_RATE_BPS, multi_plane_clos
from topologies.errors import FabricError
from topologies.fabric import Fabric, Link, LinkKind, T2Wiring
from topologies.fabric_checks import MAX_PLANES
from topologies.link_rules import LinkRule, ports_rules
from topologies.located_yaml import FileLineError, LocatedValue, document, shown
from topologies.queues import QueueProfile
from topologies.wiring import positions

MAX_FILE_BYTES = 1 << 20

_REQUIRED = ("name", "planes", "t0", "t1", "hosts")
_SHAPE = ("pods", "t2", "t2_wiring", "racks", "ports", "links")
_OPTIONAL = (
    "rate", "uplink_rate", *_SHAPE, "kernel_switches", "mtu", "usid_block", "address_prefix", "protocol", "queues"
)  # fmt: skip
_FROM_RACKS = ("pods", "t0", "hosts")
_PROTOCOL = ("udp_port", "ev_order", "hop_limit", "dscp")
_MISSING = "missing"


def load_file(path: Path | str) -> Fabric:
    """Read a fabric file. Raises :class:`FabricError` for anything wrong with it."""
    path = Path(path)
    try:
        text = named_files.read_text(path, MAX_FILE_BYTES)
    except OSError as error:
        raise FabricError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FabricError(f"{path}: is not a text file in UTF-8") from None
    return load_text(text, source=str(path))


def load_text(text: str, *, source: str = "fabric") -> Fabric:
    """Build the fabric that YAML text describes; `source` and the line begin every error message."""
    try:
        return _fabric(document(text))
    except FileLineError as error:
        raise FabricError(f"{source}:{error.line}: {error}") from None
    except FabricError as error:
        raise FabricError(f"{source}: {error}") from None


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


def _fabric(root: LocatedValue) -> Fabric:
    for key, why in _NOT_KEYS.items():
        if isinstance(root.value, dict) and key in root.value:
            raise root.value[key].error(why)
    values = root.mapping("a fabric file", _REQUIRED + _OPTIONAL)
    for key in _REQUIRED:
        if key not in values and not ("racks" in values and key in _FROM_RACKS):
            raise root.error(f"{key} is missing; {', '.join(_REQUIRED)} are needed, or racks instead of t0 and hosts")
    name = values["name"]
    if not isinstance(name.value, str):
        raise name.error(f"name must be a word, not {name.shown()}")
    planes = values["planes"].integer("planes")
    given: dict[str, Any] = {
        key: values[key].integer(key) for key in ("t0", "t1", "hosts", "pods", "t2") if key in values
    }
    if "racks" in values:
        given = {"t1": given["t1"], "t2": given.get("t2", 0), "racks": _racks(values)}
    if "mtu" in values:
        given["mtu"] = values["mtu"].integer("mtu")
    given |= {key: _prefix(key, values[key], bits) for key, bits in _PREFIX_BITS.items() if key in values}
    rules = [*_ports(values.get("ports"), planes), *_links(values.get("links"))]
    with _LinesOf(values, rules):
        return multi_plane_clos(
            name.value,
            planes=planes,
            t2_wiring=_wiring(values.get("t2_wiring")),
            links=[rule for _, rule in rules],
            kernel_switches=_patterns("kernel_switches", values.get("kernel_switches")),
            rate_bps=_rate("rate", values["rate"]) if "rate" in values else DEFAULT_RATE_BPS,
            uplink_rate_bps=_rate("uplink_rate", values["uplink_rate"]) if "uplink_rate" in values else None,
            settings=_protocol(values.get("protocol")),
            queues=_queues(values.get("queues")),
            **given,
        )


_ABOUT = {
    "t2": r"\bT2", "pods": r"\bpods\b", "racks": "rack|host|T0|ports", "hosts": "host|T0|ports",
    "kernel_switches": "no switch that matches",
}  # fmt: skip
_PREFIX_BITS = {"usid_block": 32, "address_prefix": 48}


class _LinesOf:
    """Gives errors that no line is known of the line of the key or rule that they are about, or of the first key."""

    def __init__(self, values: Mapping[str, LocatedValue], rules: list[tuple[int, LinkRule]]) -> None:
        self._values = values
        self._rules = rules

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        """Turn a FabricError into one with a line."""
        if isinstance(error, FabricError) and not isinstance(error, FileLineError):
            raise FileLineError(self._line(str(error)), str(error)) from None

    def _line(self, problem: str) -> int:
        for line, rule in self._rules:
            if repr(rule.links) in problem or f"no {rule.links} links" in problem:
                return line
        words = problem.replace(":", " ").split()
        about = [key for key in self._values if key in words[:2]]
        if {"link", "path"} & set(words):
            about += ["links", "ports"]
        about += [key for key, words_about in _ABOUT.items() if re.search(words_about, problem)]
        return next((self._values[key].line for key in about if key in self._values), self._values["name"].line)


def _racks(values: Mapping[str, LocatedValue]) -> list[list[int]]:
    for key in _FROM_RACKS:
        if key in values:
            raise values[key].error(f"{key} follows from racks: leave it out")
    racks = values["racks"]
    if not isinstance(racks.value, list) or not racks.value:
        raise racks.error("racks must list the hosts of each T0, as [4, 2], or of each pod, as [[4, 2], [1]]")
    pods = racks.value if isinstance(racks.value[0].value, list) else [racks]
    found = []
    for pod in pods:
        if not isinstance(pod.value, list):
            raise pod.error("racks must be numbers of hosts, or lists of them, not both")
        found.append([rack.integer("racks: number of hosts") for rack in pod.value])
    return found


def _ports(piece: LocatedValue | None, planes: int) -> list[tuple[int, LinkRule]]:
    found = []
    for hosts, count in () if piece is None else piece.mapping("ports").items():
        if not hosts.startswith("h"):
            raise count.error(f"ports: {shown(hosts)} is no host: write a name or pattern such as h3 or h[5-8]")
        number = count.bounded(f"ports: {hosts}", 1, min(planes, MAX_PLANES))
        found += [(count.line, rule) for rule in ports_rules(hosts, number, planes)]
    return found


def _links(piece: LocatedValue | None) -> Iterator[tuple[int, LinkRule]]:
    for links, what in () if piece is None else piece.mapping("links").items():
        if what.value == _MISSING:
            yield what.line, LinkRule(links, missing=True)
            continue
        if not isinstance(what.value, dict):
            raise what.error(f"links: {links} must be missing, or a mapping with rate and delay, not {what.shown()}")
        keys = what.mapping(f"links: {links}", ("rate", "delay"))
        rate = _rate("rate", keys["rate"]) if "rate" in keys else None
        yield what.line, LinkRule(links, rate, _delay(keys["delay"]) if "delay" in keys else None)


def _patterns(key: str, piece: LocatedValue | None) -> list[str]:
    if piece is None:
        return []
    if not isinstance(piece.value, list) or not all(isinstance(one.value, str) for one in piece.value):
        raise piece.error(
            f'{key} must list names or patterns of switches, as [t1-0@p0, "t0-*@p1"], not {piece.shown()}'
        )
    return [one.value for one in piece.value]


def _wiring(piece: LocatedValue | None) -> T2Wiring:
    try:
        return T2Wiring.GROUPS if piece is None else T2Wiring(piece.value)
    except ValueError:
        assert piece is not None, "else it is the default"
        choices = " or ".join(wiring.value for wiring in T2Wiring)
        raise piece.error(f"t2_wiring must be {choices}, not {piece.shown()}") from None


def _rate(key: str, piece: LocatedValue) -> int:
    try:
        return parse_rate(key, piece.value)
    except FabricError as error:
        raise piece.error(str(error)) from None


def parse_rate(key: str, value: object) -> int:
    """A rate in b/s from a number, or from text such as ``40M`` or ``2.5G``; FabricError names `key` otherwise."""
    if isinstance(value, int) and not isinstance(value, bool) and not abs(value) >> 64:
        return value
    try:
        return int(units.RATE.word(value if isinstance(value, str) else "", low=0))
    except ValueError:
        raise FabricError(
            f"{key} must be a rate such as 40M or 2.5G (b/s), not {LocatedValue(value, 0).shown()}"
        ) from None


def _delay(piece: LocatedValue) -> int:
    try:
        return int(units.TIME.word(piece.value if isinstance(piece.value, str) else "", low=0))
    except ValueError:
        raise piece.error(f"delay must be a time such as 500ns or 20us, not {piece.shown()}") from None


def _prefix(key: str, piece: LocatedValue, bits: int) -> int:
    try:
        network = IPv6Network(piece.value if isinstance(piece.value, str) else "")
    except ValueError:
        network = None
    if network is None or network.prefixlen != bits:
        raise piece.error(f"{key} must be an IPv6 prefix of length {bits} in quotes, not {piece.shown()}")
    return int(network.network_address) >> (128 - bits)


def _protocol(piece: LocatedValue | None) -> ProtocolSettings:
    default = ProtocolSettings()
    if piece is None:
        return default
    values = piece.mapping("protocol", _PROTOCOL)
    return ProtocolSettings(
        udp_port=values["udp_port"].bounded("udp_port", 1, 65535) if "udp_port" in values else default.udp_port,
        ev_order=_ev_order(values["ev_order"]) if "ev_order" in values else default.ev_order,
        hop_limit=values["hop_limit"].bounded("hop_limit", 1, 255) if "hop_limit" in values else default.hop_limit,
        dscp=_dscp(values["dscp"]) if "dscp" in values else default.dscp,
    )


def _queues(piece: LocatedValue | None) -> QueueProfile:
    if piece is None:
        return QueueProfile()
    known = dataclasses.asdict(QueueProfile())
    given: dict[str, Any] = {}
    for key, member in piece.mapping("queues", known).items():
        if isinstance(known[key], bool) and not isinstance(member.value, bool):
            raise member.error(f"queues: {key} must be yes or no, not {member.shown()}")
        given[key] = member.value if isinstance(known[key], bool) else member.integer(f"queues: {key}")
    try:
        return QueueProfile(**given)
    except FabricError as error:
        raise piece.error(str(error)) from None


def _ev_order(piece: LocatedValue) -> EvOrder:
    try:
        return EvOrder(_hashable(piece.value))
    except ValueError:
        choices = " or ".join(order.value for order in EvOrder)
        raise piece.error(f"ev_order must be {choices}, not {piece.shown()}") from None


def _hashable(value: object) -> object:
    return None if isinstance(value, list | dict) else value


def _dscp(piece: LocatedValue) -> Dscp:
    roles = dataclasses.asdict(Dscp())
    given = piece.mapping("dscp", roles)
    roles.update({role: number.bounded(f"dscp {role}", 0, 63) for role, number in given.items()})
    if len(set(roles.values())) != len(roles):
        raise piece.error(f"dscp values must all differ, but are {roles}")
    return Dscp(**roles)


# Writing


def dump_text(fabric: Fabric) -> str:
    """Write a fabric as YAML; :func:`load_text` gives an equal fabric back, but for transport settings."""
    kinds = {kind: [link for link in fabric.links if link.kind is kind] for kind in LinkKind}
    rate = _usual([link.rate_bps for link in kinds[LinkKind.NIC_T0]])
    uplink_rate = _usual([link.rate_bps for link in kinds[LinkKind.T0_T1]]) if kinds[LinkKind.T0_T1] else rate
    settings = fabric.settings
    written: dict[str, Any] = {
        "name": fabric.name,
        "planes": fabric.planes,
        **_dump_shape(fabric),
        "rate": rate,
        **({"uplink_rate": uplink_rate} if uplink_rate != rate else {}),
        **_dump_links(fabric, rate, uplink_rate),
        **({"kernel_switches": [switch.name for switch in fabric.kernel_switches]} if fabric.kernel_switches else {}),
        "mtu": fabric.mtu,
        "usid_block": str(IPv6Network((fabric.usid_block << 96, 32))),
        "address_prefix": str(IPv6Network((fabric.address_prefix << 80, 48))),
        "protocol": {
            "udp_port": settings.udp_port,
            "ev_order": settings.ev_order.value,
            "hop_limit": settings.hop_limit,
            "dscp": dataclasses.asdict(settings.dscp),
        },
        "queues": dataclasses.asdict(fabric.queues),
    }
    return yaml.safe_dump(written, sort_keys=False)


def _usual(values: list[int]) -> int:
    return Counter(values).most_common(1)[0][0]


def _dump_shape(fabric: Fabric) -> dict[str, Any]:
    """Counts, where all racks and pods are alike, or racks."""
    racks: list[list[int]] = [[] for _ in range(fabric.pods)]
    for t0 in range(fabric.t0_count):
        racks[fabric.pod_of(t0)].append(len(fabric.nics_of(t0)))
    shape: dict[str, Any] = {}
    if all(pod == [racks[0][0]] * len(racks[0]) for pod in racks):
        shape |= {"pods": fabric.pods} if fabric.t2_count else {}
        shape |= {"t0": len(racks[0]), "t1": fabric.t1_per_pod, "hosts": len(fabric.nics)}
    else:
        shape |= {"t1": fabric.t1_per_pod, "racks": racks}
    if fabric.t2_count:
        shape |= {"t2": fabric.t2_count, "t2_wiring": fabric.wiring.value}
    return shape


def _dump_links(fabric: Fabric, rate: int, uplink_rate: int) -> dict[str, Any]:
    """Rules for links that differ from the two rates, or are missing; one for a class that differs alike."""
    rules: dict[str, Any] = {}
    expected = {kind: (rate if kind is LinkKind.NIC_T0 else uplink_rate, None) for kind in LinkKind}
    for kind in LinkKind:
        found = {(link.rate_bps, link.delay_ns) for link in fabric.links if link.kind is kind}
        if len(found) == 1 and found != {expected[kind]}:
            (own,) = found
            rules[kind.value] = _dump_rule(*own, *expected[kind])
            expected[kind] = own  # type: ignore[assignment]
    present: dict[str, Link] = {link.name: link for link in fabric.links}
    for name, at in positions(fabric.planes, fabric.switches, fabric.nics, fabric.wiring).items():
        link = present.get(name)
        if link is None:
            rules[name] = _MISSING
        elif (link.rate_bps, link.delay_ns) != expected[at.kind]:
            rules[name] = _dump_rule(link.rate_bps, link.delay_ns, *expected[at.kind])
    return {"links": rules} if rules else {}


def _dump_rule(rate: int, delay: int | None, usual_rate: int, usual_delay: int | None) -> dict[str, Any]:
    rule: dict[str, Any] = {} if rate == usual_rate else {"rate": rate}
    return rule if delay == usual_delay else rule | {"delay": f"{delay}ns"}
