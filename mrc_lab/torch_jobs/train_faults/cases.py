"""Cases and stacks of ``mrc train-faults``: which faults, over which networks, for which backends of torch.

``cases.yaml`` has them as data. Faults are words of ``mrc fault add``, so a reader can make each by hand.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from mrc_common.declared.field_types import suggest
from mrc_common.units import parse_rate, parse_time
from mrc_lab.commands import fault_command
from mrc_lab.errors import ExperimentError
from topologies.clos import multi_plane_clos
from topologies.fabric import Fabric
from topologies.faults import Fault

_FILE = Path(__file__).with_name("cases.yaml")
MIN_HOSTS, MAX_HOSTS = 4, 8
REROUTE_NS = 500_000_000  # below a second: RFC 7938, section 7 (docs/baselines.md, "Over a network that reroutes")


@dataclass(frozen=True, slots=True)
class LabStack:
    """What ranks train over: a `backend` of torch.distributed, on a `network`; `transport` is MRC_QP_TYPE's word.

    `does` says how it learns of failures and recovers. `settings` are times of the NICs that are not the defaults. What
    stands `beside` the others is run only if it is named, and is not compared with them.
    """

    name: str
    network: str
    backend: str
    does: str
    transport: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    beside: bool = False


@dataclass(frozen=True, slots=True)
class FaultCase:
    """What fails at once, and what fails (`then`) when the first rank notices that; faults by network.

    `kill` and `stop` are the host of a rank that gets SIGKILL or SIGSTOP, or empty.
    """

    name: str
    title: str
    faults: Mapping[str, Sequence[str]] = field(default_factory=dict)
    kill: str = ""
    stop: str = ""
    then: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def victims(self) -> tuple[str, ...]:
        """Hosts whose rank is killed or stopped."""
        return tuple(host for host in (self.kill, self.stop) if host)

    @property
    def harmless(self) -> bool:
        """Whether nothing fails."""
        return not (self.faults or self.victims or self.then)

    def faults_of(self, network: str) -> list[Fault]:
        """What fails in a network at once."""
        return parsed(self.faults.get(network, ()))

    def later_of(self, network: str) -> list[Fault]:
        """What fails there when the first rank notices."""
        return parsed(self.then.get(network, ()))


@dataclass(frozen=True, slots=True)
class FaultMatrix:
    """All cases meet all stacks."""

    networks: Mapping[str, Mapping[str, Any]]
    stacks: Sequence[LabStack]
    cases: Sequence[FaultCase]

    @property
    def names(self) -> list[str]:
        """Of all stacks and cases, in this order."""
        return [*(stack.name for stack in self.stacks), *(case.name for case in self.cases)]

    def only(self, names: Collection[str]) -> FaultMatrix:
        """Of each kind those with these names, or all where none of the kind is named.

        Stacks that stand beside the others are left out unless they are named. ExperimentError for a name that is none.
        """
        for name in names:
            if name not in self.names:
                raise ExperimentError(f"there is no case or stack {name}; {suggest(name, self.names)}")
        return FaultMatrix(
            self.networks,
            [stack for stack in self.stacks if stack.name in names]
            or [stack for stack in self.stacks if not stack.beside],
            [case for case in self.cases if case.name in names] or self.cases,
        )

    def fabric(self, stack: LabStack, hosts: int, name: str) -> Fabric:
        """The fabric of a stack, whose switches reroute plain IPv6 (what gloo and RoCE send) around dead links."""
        sizes = dict(self.networks[stack.network])
        rate = parse_rate(sizes.pop("rate"))
        fabric = multi_plane_clos(name, **sizes, hosts=hosts, rate_bps=rate, reroute_ns=REROUTE_NS)
        settings = fabric.settings
        own: dict[str, Any] = {name: parse_time(text) for name, text in stack.settings.items()}
        return fabric.with_settings(replace(settings, transport=replace(settings.transport, **own)))


def parsed(commands: Sequence[str]) -> list[Fault]:
    """Faults that words such as ``h3@p0 down`` mean; ExperimentError for others."""
    return [fault_command.parse(shlex.split(words)).fault for words in commands]


def load() -> FaultMatrix:
    """The matrix of ``mrc train-faults``."""
    read = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return FaultMatrix(
        read["networks"], [LabStack(**stack) for stack in read["stacks"]], [FaultCase(**case) for case in read["cases"]]
    )


def check_hosts(hosts: int) -> None:
    """ExperimentError unless a fabric of the matrix can have so many."""
    if not MIN_HOSTS <= hosts <= MAX_HOSTS or hosts % 2:
        raise ExperimentError(
            f"{hosts} hosts cannot be halved over two T0s, or are not {MIN_HOSTS} to {MAX_HOSTS}",
            "The cases name h2, h3 and h4: give --hosts 4, 6 or 8.",
        )
