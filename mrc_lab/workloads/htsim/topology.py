"""A topology file of htsim: a fat tree of two or three tiers, the same everywhere.

    Nodes 128
    Tiers 3
    Podsize 16

    Tier 0
    Downlink_speed_Gbps 100
    Radix_Down 4
    Radix_Up 4
    Downlink_Latency_ns 1000
    Switch_Latency_ns 0
    Oversubscribed 1
    ...

Tier 0 are the switches of racks (T0s), whose downlinks lead to hosts, tier 1 the aggregation switches (T1s), tier 2 the
core (T2s). Format and checks: ``fat_tree_topology.cpp`` of ultraethernet's uet-htsim and Broadcom's csg-htsim. htsim
works out the numbers of switches from speeds and oversubscription; a file in which those and the radixes disagree is
refused here, although some of them run there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mrc_common.suggestions import did_you_mean
from mrc_lab.errors import FileError
from mrc_lab.workloads.htsim.connection_matrix import MAX_NODES
from mrc_lab.workloads.htsim.lines import Line, lines_of, read_text, shown

TOR, AGG, CORE = 0, 1, 2
_MAX_RADIX = 1024
_MAX_GBPS = 1000
_MAX_NS = 10**9
_BUNDLE = "links between the same two switches are one link here: Bundle is 1"
_QUEUE = (
    "no published htsim runs a file with it (it calls it a duplicate, or sets it to -q): leave it out, and write"
    " fabric.queues into an experiment file"
)


@dataclass(frozen=True, slots=True)
class FatTreeTier:
    """Switches of one tier. Speed (Gb/s) and latency (ns) are those of the links below them, `switch_ns` their own.

    `oversubscribed` is the rate of all downlinks over that of all uplinks; `up` is 0 in the highest tier.
    """

    gbps: int
    down: int
    up: int
    link_ns: int
    switch_ns: int = 0
    oversubscribed: int = 1


@dataclass(frozen=True, slots=True)
class FatTree:
    """All that a file says; `pod` is the number of hosts in a pod."""

    nodes: int
    pod: int
    tiers: tuple[FatTreeTier, ...]

    @property
    def pods(self) -> int:
        """How many pods there are."""
        return self.nodes // self.pod

    @property
    def t0_per_pod(self) -> int:
        """T0s of a pod."""
        return self.pod // self.tiers[TOR].down

    @property
    def t1_per_pod(self) -> int:
        """T1s of a pod: one for each uplink of a T0."""
        return self.tiers[TOR].up

    @property
    def t2(self) -> int:
        """T2s in all: each joins the T1s of one number; 0 with two tiers."""
        return self.t1_per_pod * self.tiers[AGG].up if len(self.tiers) > CORE else 0

    def text(self) -> str:
        """The file."""
        return "\n".join([*self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield from (f"Nodes {self.nodes}", f"Tiers {len(self.tiers)}", f"Podsize {self.pod}")
        for number, tier in enumerate(self.tiers):
            yield from ("", f"Tier {number}", f"Downlink_speed_Gbps {tier.gbps}", f"Radix_Down {tier.down}")
            if tier.up:
                yield f"Radix_Up {tier.up}"
            yield from (f"Downlink_Latency_ns {tier.link_ns}", f"Switch_Latency_ns {tier.switch_ns}")
            if tier.up:
                yield f"Oversubscribed {tier.oversubscribed}"


def read_topology(path: Path) -> FatTree:
    """The topology in a file; FileError with file and line for anything wrong with it."""
    return parse_topology(read_text(path), str(path))


def parse_topology(text: str, source: str) -> FatTree:
    """The topology in `text`; `source` begins every error message."""
    reader = _Reader(source)
    for line in lines_of(text, source):
        reader.read(line)
    return reader.topology()


# Names of values, as in the file but in lower case, as htsim compares them; with the least and the most.
_HEADER = {"nodes": (2, MAX_NODES), "tiers": (2, 3), "podsize": (1, MAX_NODES)}
_TIER = {
    "downlink_speed_gbps": (1, _MAX_GBPS),
    "radix_down": (1, _MAX_RADIX),
    "radix_up": (1, _MAX_RADIX),
    "downlink_latency_ns": (1, _MAX_NS),
    "switch_latency_ns": (0, _MAX_NS),
    "oversubscribed": (1, _MAX_RADIX),
    "bundle": (1, _MAX_RADIX),
}
_ALL = (
    "Nodes, Tiers, Podsize, Tier, Downlink_speed_Gbps, Radix_Up, Radix_Down, Downlink_Latency_ns, Switch_Latency_ns, "
    "Oversubscribed, Bundle"
)


class _Reader:
    """Takes line by line. `values` are those of the header (under -1) and of each tier, with their lines."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._values: dict[int, dict[str, tuple[int, Line]]] = {-1: {}}
        self._tier = -1

    def read(self, line: Line) -> None:
        """The next line."""
        name = line.words[0].lower()
        if name == "tier":
            self._tier = line.whole("Tier", line.value(), 0, 2)
            if self._tier in self._values:
                raise line.error(f"tier {self._tier} is there already")
            self._values[self._tier] = {}
        elif name in ("queue_up", "queue_down"):
            raise line.error(f"{line.words[0]}: {_QUEUE}")
        elif name in _HEADER or name in _TIER:
            self._value(line, name)
        else:
            hint = did_you_mean(line.words[0], _ALL.split(", "), most=1, cutoff=0.6)
            raise line.error(f"{shown(line.words[0])} is unknown; {hint or f'known are {_ALL}'}")

    def _value(self, line: Line, name: str) -> None:
        shown_name = line.words[0]
        if name in _HEADER and self._tier >= 0:
            raise line.error(f"{shown_name} stands before the first Tier")
        if name in _TIER and self._tier < 0:
            raise line.error(f"{shown_name} is about a tier: write 'Tier 0' before it")
        known = self._values[self._tier]
        if name in known:
            raise line.error(f"{shown_name} is there already, in line {known[name][1].number}")
        found = line.whole(shown_name, line.value(), *(_HEADER.get(name) or _TIER[name]))
        if name == "bundle" and found > 1:
            raise line.error(_BUNDLE)
        known[name] = found, line

    def topology(self) -> FatTree:
        """All of it, once the last line is read; FileError if something is missing or does not fit."""
        count = self._needed(-1, "Tiers")
        nodes, pod = self._needed(-1, "Nodes"), self._needed(-1, "Podsize")
        for number in range(3):
            if (number < count) != (number in self._values):
                there = "is there" if number in self._values else "is missing"
                raise FileError(f"{self._source}: Tiers is {count}, but tier {number} {there}")
        found = FatTree(nodes, pod, tuple(self._tier_of(number, number == count - 1) for number in range(count)))
        self._check(found)
        return found

    def _needed(self, tier: int, name: str) -> int:
        found = self._values[tier].get(name.lower())
        if found is None:
            whose = "has" if tier < 0 else f"tier {tier} has"
            raise FileError(f"{self._source}: {whose} no {name}")
        return found[0]

    def _tier_of(self, number: int, top: bool) -> FatTreeTier:
        values = self._values[number]
        for name in ("radix_up", "oversubscribed"):
            if top and name in values and (name == "radix_up" or values[name][0] > 1):
                raise values[name][1].error(f"tier {number} is the highest and has no uplinks")
        return FatTreeTier(
            self._needed(number, "Downlink_speed_Gbps"),
            self._needed(number, "Radix_Down"),
            0 if top else self._needed(number, "Radix_Up"),
            self._needed(number, "Downlink_Latency_ns"),
            values["switch_latency_ns"][0] if "switch_latency_ns" in values else 0,
            values["oversubscribed"][0] if "oversubscribed" in values else 1,
        )

    def _check(self, tree: FatTree) -> None:
        """FileError where numbers disagree, or htsim would refuse them."""
        tor, agg = tree.tiers[:CORE]
        if tree.nodes % tree.pod:
            raise self._at(-1, "podsize", f"Nodes ({tree.nodes}) must be a multiple of Podsize ({tree.pod})")
        if tree.pod % tor.down:
            raise self._at(TOR, "radix_down", f"Podsize ({tree.pod}) must be a multiple of Radix_Down ({tor.down})")
        if len(tree.tiers) == CORE and tree.pods > 1:
            raise self._at(-1, "podsize", f"with two tiers nothing joins pods: Podsize must be {tree.nodes}")
        if agg.down != tree.t0_per_pod:
            raise self._at(AGG, "radix_down", f"{tree.t0_per_pod} T0s of a pod lead to each T1, not {agg.down}")
        if tree.tiers[-1].down != tree.pods and len(tree.tiers) > CORE:
            raise self._at(CORE, "radix_down", f"{tree.pods} pods lead to each T2, not {tree.tiers[CORE].down}")
        for number, (lower, upper) in enumerate(zip(tree.tiers, tree.tiers[1:], strict=False)):
            down, up = lower.down * lower.gbps, lower.up * upper.gbps
            if down != lower.oversubscribed * up:
                raise self._at(
                    number,
                    "oversubscribed",
                    f"tier {number} has {down} Gb/s downwards and {up} upwards, so Oversubscribed cannot be"
                    f" {lower.oversubscribed}",
                )
        if tor.down // tor.up != tor.oversubscribed:  # htsim compares links here, not rates
            raise self._at(TOR, "oversubscribed", f"htsim needs the links of T0s to be {tor.oversubscribed} to 1")

    def _at(self, tier: int, name: str, reason: str) -> FileError:
        """The error where a value stands or, if it does not, for the file."""
        found = self._values[tier].get(name)
        return FileError(f"{self._source}: {reason}") if found is None else found[1].error(reason)
