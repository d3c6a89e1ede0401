"""A fabric file: a :class:`topologies.clos.Clos` as a YAML mapping, and back (docs/fabrics.md).

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
    reroute: 50us       # so long after a link goes down or comes back, RoCE takes other routes; without it never
    kernel_switches: [t1-0@p0, "t0-*@p1"]   # Linux itself forwards there, instead of the P4 program

Name, planes, t1, and t0 and hosts, or racks, are needed. Any mistake raises an error that names the
file, the line, the key and what would be right; nothing is guessed.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any

import yaml

from mrc_common.declared.document import Source, Value, parse, read_text
from topologies.clos import Clos
from topologies.clos_keys import ClosSection
from topologies.errors import FabricError
from topologies.fabric import Fabric, Link, LinkKind
from topologies.wiring import positions

_FILE = ClosSection(Clos, needed=("name", "planes", "t0", "t1", "hosts"))


def load_file(path: Path | str, *, packets: bool = True) -> Fabric:
    """Read a fabric file. Raises :class:`FabricError` for anything wrong with it."""
    return load_text(read_text(Path(path), FabricError), source=str(path), packets=packets)


def load_text(text: str, *, source: str = "fabric", packets: bool = True) -> Fabric:
    """Build the fabric that YAML text describes; `source` and the line begin every error message.

    `packets` is that of :class:`topologies.fabric.Fabric`.
    """
    document = parse(text, Source(source, FabricError))
    clos: Clos = _FILE.read(document)
    try:
        return dataclasses.replace(clos, packets=packets).fabric()
    except FabricError as error:
        raise place_of(str(error), document).error(str(error)) from None


_ABOUT = {
    "t2": r"\bT2", "pods": r"\bpods\b", "racks": "rack|host|T0|ports", "hosts": "host|T0|ports",
    "kernel_switches": "no switch that matches",
}  # fmt: skip


def place_of(problem: str, document: Value) -> Value:
    """The key or rule of a Clos that a FabricError's message is about, as its words tell; else the whole."""
    keys = document.items()
    rules = {name: rule for key in ("ports", "links") if key in keys for name, rule in keys[key].items().items()}
    for name, rule in rules.items():
        if any(words in problem for words in (f"'{name}'", f"'{name}@p", f"no {name} links")):
            return rule
    words = problem.replace(":", " ").split()
    about = [key for key in keys if key in words[:2]]
    if {"link", "path"} & set(words):
        about += ["links", "ports"]
    about += [key for key, words_about in _ABOUT.items() if re.search(words_about, problem)]
    return next((keys[key] for key in about if key in keys), keys.get("name", document))


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
        **({"reroute": f"{fabric.reroute_ns}ns"} if fabric.reroute_ns is not None else {}),
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
            rules[name] = "missing"
        elif (link.rate_bps, link.delay_ns) != expected[at.kind]:
            rules[name] = _dump_rule(link.rate_bps, link.delay_ns, *expected[at.kind])
    return {"links": rules} if rules else {}


def _dump_rule(rate: int, delay: int | None, usual_rate: int, usual_delay: int | None) -> dict[str, Any]:
    rule: dict[str, Any] = {} if rate == usual_rate else {"rate": rate}
    return rule if delay == usual_delay else rule | {"delay": f"{delay}ns"}
