"""A whole examination: every script, then random peers, against one NIC."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mrc_host.back_to_back import nic_config
from mrc_host.config import NicConfig
from mrc_host.verbs.context import Context
from mrc_host.verbs.local import LocalProvider
from mrc_lab.conformance.nic_under_test import NicUnderTest, VerbsNic
from mrc_lab.conformance.player import RuleVerdict, play
from mrc_lab.conformance.random_peer import play_random
from mrc_lab.conformance.script import Script
from mrc_lab.conformance.wires import MemoryWire, Wire
from mrc_lab.errors import ExperimentError


@dataclass(frozen=True, slots=True)
class Setting:
    """The NIC under test, its address, what carries frames to it, and the NIC that the kit plays."""

    wire: Wire
    nic: NicUnderTest
    address: bytes
    peer: NicConfig


def examine(setting: Setting, scripts: Iterable[Script], seeds: Iterable[int]) -> Iterator[RuleVerdict]:
    """Play all scripts with the first seed and random peers with each.

    Scripts for more planes or paths than the NIC has are left out.
    """
    wire, nic, peer, address = setting.wire, setting.nic, setting.peer, setting.address
    (towards,) = (one for one in peer.destinations if one.address == address)
    paths = len(towards.evs) // len(peer.ports)
    all_seeds = tuple(seeds)
    for script in scripts:
        if script.planes > len(peer.ports) or script.paths > paths:
            continue
        yield play(script, wire, nic, peer, address, next(iter(all_seeds), 1))
    for seed in all_seeds:
        yield from play_random(wire, nic, peer, address, seed)


@contextmanager
def in_memory(planes: int = 2, seed: int = 1) -> Iterator[Setting]:
    """A NIC of this project in memory, under a virtual clock."""
    own, peer = (nic_config(number, planes=planes) for number in range(2))
    wire = MemoryWire(own, seed)
    with Context(LocalProvider(wire.nic, wire.now)) as context:
        yield Setting(wire, VerbsNic(context), own.address, peer)


def destination_of(peer: NicConfig, name: str = "") -> bytes:
    """Address of the NIC under test among the destinations of the peer's configuration: the only one, or by name."""
    found = [one for one in peer.destinations if name in ("", one.name)]
    if len(found) != 1:
        names = ", ".join(one.name for one in peer.destinations)
        raise ExperimentError(
            f"the configuration has destinations {names or 'none'}", "Name the NIC under test: --destination NAME."
        )
    return found[0].address
