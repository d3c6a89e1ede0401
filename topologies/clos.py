"""A multi-plane Clos from a handful of numbers, which files, command lines and programs give under the same names.

Hosts h1..hN fill the racks (the hosts below one T0) one after the other; T0s and T1s fill the pods. Every plane is
wired the same (see ``wiring`` for the ports), except where a link rule says otherwise.
"""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import ParamSpec

from mrc_common.declared.field_types import EnumMember, Integer, Text, a_rate, a_time
from mrc_common.declared.sections import ListOf, Section, key, keys_of
from mrc_host.config import ProtocolSettings
from topologies.clos_keys import PORTS, PROTOCOL, AddressPrefix, LinkRules, Racks
from topologies.errors import FabricError
from topologies.fabric import DEFAULT_ADDRESS_PREFIX, DEFAULT_MTU, DEFAULT_USID_BLOCK, Fabric
from topologies.fabric_checks import (
    MAX_HOSTS,
    MAX_MTU,
    MAX_PER_KIND,
    MAX_PLANES,
    MAX_REROUTE_NS,
    MIN_MTU,
    check_range,
    check_wiring,
)
from topologies.ip_routes import ip_routes
from topologies.link_rules import LinkRule, apply_rules, ports_rules
from topologies.parts import FabricNic, Link, LinkKind, Switch, T2Wiring, Tier
from topologies.queues import QueueProfile
from topologies.wiring import positions

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Clos:
    """A fabric of `planes` planes with `t0` T0s and `t1` T1s each, and `hosts` NICs in all.

    With three tiers there are `t0` T0s and `t1` T1s in each of the `pods` pods, and `t2` T2s in each plane. `pods`,
    `t0` and `hosts` follow from `racks` where these are given. With one T0, `t1` may be 0: each plane is then a single
    switch. Rates are in b/s.
    """

    name: str = key(Text(), "names the run directory and, hashed, the interfaces", default="demo")
    _: KW_ONLY
    planes: int = key(Integer(1, MAX_PLANES), "planes; each host has a NIC port in every one", default=2)
    t0: int = key(Integer(1, MAX_PER_KIND), "T0 switches per plane; with pods, per pod", default=2)
    t1: int = key(Integer(0, MAX_PER_KIND), "T1 switches per plane; with pods, per pod", default=4)
    hosts: int = key(Integer(1, MAX_HOSTS), "hosts in all, a multiple of the T0s; or give racks", default=4)
    pods: int = key(Integer(1, MAX_PER_KIND), "pods of a fabric of three tiers", default=1)
    t2: int = key(Integer(0, MAX_PER_KIND), "T2 switches per plane, which join the pods", default=0)
    t2_wiring: T2Wiring = key(EnumMember(T2Wiring), "a T2 joins the T1s of one number, or all", default=T2Wiring.GROUPS)
    racks: Sequence[Sequence[int]] | None = key(
        Racks(), "hosts of each T0, in a list for each pod, instead of pods, t0 and hosts", default=None
    )
    rate_bps: int = key(a_rate(), "rate of every link and direction", name="rate", default=100_000_000)
    uplink_rate_bps: int | None = key(
        a_rate(), "rate of links between switches, where it differs", name="uplink_rate", default=None
    )
    links: Iterable[LinkRule] = key(
        LinkRules(),
        "links that differ, by class (nic-t0, t0-t1, t1-t2), name or pattern: rate and delay, or missing",
        default=(),
    )
    ports: Iterable[tuple[str, int]] = key(
        PORTS, "hosts, by name or pattern, that have ports in so many planes only, the first", default=()
    )
    kernel_switches: Iterable[str] = key(
        ListOf(Text()), "switches, by name or pattern, that are Linux itself, instead of the P4 program", default=()
    )
    reroute_ns: int | None = key(
        a_time(1, MAX_REROUTE_NS),
        "how long after a link has lost its carrier, or has it back, plain IPv6 (RoCE) takes other routes; else never",
        name="reroute",
        default=None,
    )
    mtu: int = key(Integer(MIN_MTU, MAX_MTU), "IPv6 MTU of every link", default=DEFAULT_MTU)
    usid_block: int = key(AddressPrefix(32), "locator block of every uSID", default=DEFAULT_USID_BLOCK)
    address_prefix: int = key(AddressPrefix(48), "of the addresses of NICs", default=DEFAULT_ADDRESS_PREFIX)
    settings: ProtocolSettings = key(
        PROTOCOL, "choices of the protocol (docs/protocol.md)", name="protocol", default=ProtocolSettings()
    )
    queues: QueueProfile = key(
        Section(QueueProfile),
        "queue signals, see topologies.queues",
        default=QueueProfile(),
    )
    packets: bool = True  # which is no key of files: see Fabric

    def fabric(self) -> Fabric:
        """The fabric. Raises :class:`FabricError` when the numbers make none."""
        with _nothing_to_collect():
            return self._fabric()

    def _fabric(self) -> Fabric:
        racks = self._even_racks() if self.racks is None else _checked_racks(self.racks)
        hosts, t0s = sum(map(sum, racks)), sum(map(len, racks))
        _check_sizes(planes=self.planes, pods=len(racks), t0=t0s, t1=self.t1, t2=self.t2, hosts=hosts)
        check_wiring(len(racks), self.t1, self.t2, self.t2_wiring)
        nics = _nics([below for pod in racks for below in pod])
        switches = _switches(self.planes, [len(pod) for pod in racks], self.t1, self.t2)
        rates = {LinkKind.NIC_T0: self.rate_bps}
        uplink_rate = self.rate_bps if self.uplink_rate_bps is None else self.uplink_rate_bps
        complete = {
            at.name: Link(at.name, at.kind, at.plane, at.lower, at.upper, rates.get(at.kind, uplink_rate))
            for at in positions(self.planes, switches, nics, self.t2_wiring).values()
        }
        fewer_ports = [rule for names, count in self.ports for rule in ports_rules(names, count, self.planes)]
        present = apply_rules(complete, [*fewer_ports, *self.links])
        fabric = Fabric(
            name=self.name,
            planes=self.planes,
            switches=_with_ports(switches, present.values()),
            nics=nics,
            links=tuple(present.values()),
            mtu=self.mtu,
            usid_block=self.usid_block,
            address_prefix=self.address_prefix,
            settings=self.settings,
            queues=self.queues,
            wiring=self.t2_wiring if self.t2 else T2Wiring.GROUPS,
            reroute_ns=self.reroute_ns,
            packets=self.packets,
        )
        if len(present) < len(complete):  # else a switch has one group
            for switch in fabric.switches:
                ip_routes(fabric, switch)
        return fabric.with_kernel_switches(self.kernel_switches)

    def _even_racks(self) -> Sequence[Sequence[int]]:
        """Racks of as many hosts each."""
        _check_sizes(planes=self.planes, pods=self.pods, t0=self.t0, t1=self.t1, t2=self.t2, hosts=self.hosts)
        groups = self.pods * self.t0
        if self.hosts % groups:
            raise FabricError(
                f"{self.hosts} hosts cannot be spread evenly over {groups} T0 groups: give a multiple of {groups}"
            )
        return [[self.hosts // groups] * self.t0] * self.pods


@contextmanager
def _nothing_to_collect() -> Iterator[None]:
    """Meanwhile Python looks for no garbage, which would take a look at millions of parts again and again."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _takes_fields_of(cls: Callable[P, Clos]) -> Callable[[Callable[[Clos], Fabric]], Callable[P, Fabric]]:
    """Gives a function of a Clos the arguments that a Clos is made of."""

    def decorate(function: Callable[[Clos], Fabric]) -> Callable[P, Fabric]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Fabric:
            return function(cls(*args, **kwargs))

        call.__signature__ = inspect.signature(cls)  # type: ignore[attr-defined]
        return call

    return decorate


@_takes_fields_of(Clos)
def multi_plane_clos(clos: Clos) -> Fabric:
    """Build a fabric, as in ``multi_plane_clos("lab", planes=2, t0=2, t1=4, hosts=8)``.

    The arguments are the fields of :class:`Clos`. Raises :class:`FabricError`.
    """
    return clos.fabric()


def _check_sizes(**sizes: int) -> None:
    known = keys_of(Clos)
    try:
        for name, value in sizes.items():
            known[name].check(value)
    except ValueError as error:
        raise FabricError(str(error)) from None


def _checked_racks(racks: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
    if not racks or not all(racks):
        raise FabricError("racks must list the hosts of every T0, and every pod needs a T0")
    for below in (below for pod in racks for below in pod):
        check_range("number of hosts in a rack", below, 1, MAX_PER_KIND)
    return racks


def _nics(racks: Sequence[int]) -> tuple[FabricNic, ...]:
    places = [(t0, downlink) for t0, below in enumerate(racks) for downlink in range(below)]
    return tuple(FabricNic(f"h{index + 1}", index, *place) for index, place in enumerate(places))


def _switches(planes: int, t0s: Sequence[int], t1: int, t2: int) -> list[Switch]:
    """The switches of pods with so many T0s each; their ports are not known yet."""
    pods = {
        Tier.T0: [pod for pod, count in enumerate(t0s) for _ in range(count)],
        Tier.T1: [pod for pod in range(len(t0s)) for _ in range(t1)],
        Tier.T2: [0] * t2,
    }
    found: list[Switch] = []
    for plane in range(planes):
        for tier, members in pods.items():
            for index, pod in enumerate(members):
                name = f"{tier.name.lower()}-{index}@p{plane}"
                found.append(Switch(name, tier, plane, index, len(found) + 1, (), pod))
    return found


def _with_ports(switches: Iterable[Switch], links: Iterable[Link]) -> tuple[Switch, ...]:
    ports: dict[str, list[int]] = {}
    for link in links:
        for end in (link.lower, link.upper):
            ports.setdefault(end.node, []).append(end.port)
    return tuple(replace(switch, ports=tuple(sorted(ports.get(switch.name, ())))) for switch in switches)
