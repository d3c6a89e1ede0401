"""Refusals of the scale backend: whatever a file asks that states without packets cannot answer (docs/scale.md).

What is listed here as read, the backend reads; every other key that a file gives is refused where it stands, so that
none is ignored. A check sees the keys as they are written, by the document that a case keeps: whether a key has its
default value does not matter, only whether the file says it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from mrc_common.declared.document import Value
from mrc_lab.experiments.files.checks import tenant_places
from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.experiments.files.model import Case, Experiment, Tenant
from mrc_lab.experiments.files.workloads import (
    ChakraReplay,
    Collective,
    GoalReplay,
    Incast,
    Permutation,
    Ranks,
    Replayed,
    Training,
    Workload,
    WriteBw,
)
from simulation.fault_limits import SIMULATION
from topologies.fabric import Fabric, LinkKind, T2Wiring
from topologies.fault_entries import ALWAYS
from topologies.faults import kind_named
from topologies.queues import QueueProfile

TRANSPORTS: Final = ("mrc", "rc")
WORKLOADS: Final = (WriteBw, Permutation, Incast, Collective, Training, GoalReplay, ChakraReplay)
FAULTS: Final = ("link_down", "port_down", "power_off", "blackhole", "loss", "corruption", "rate", "flap")
METRICS: Final = (
    "throughput", "algbw", "busbw", "completion_time", "fct", "retransmit_share", "fairness", "lost",
    "retransmitted", "path_failures", "paths_bad", "errors",
)  # fmt: skip
_OF_LOSSES: Final = ("retransmit_share", "lost", "retransmitted", "path_failures", "paths_bad")
_FABRIC: Final = (
    "file", "planes", "pods", "t0", "t1", "t2", "t2_wiring", "hosts", "racks", "rate", "uplink_rate", "links", "ports",
    "mtu", "delay",
)  # fmt: skip
_TRANSPORT: Final = ("type", "qps", "paths", "attributes", "settings")
_ATTRIBUTES: Final = ("path_mtu", "timeout", "retry_count", "linear_retries")
_SETTINGS: Final = (
    "backup_share", "base_rtt", "flap_half_life", "linear_retries", "max_backoff", "port_remap",
    "probe_interval", "probe_successes", "probe_timeout", "reorder_fraction", "sack_threshold",
)  # fmt: skip
_RANKS_REFUSED: Final = ("unacknowledged",)


def check_scale(experiment: Experiment) -> None:
    """FileError at the first key of an experiment that has no meaning for the scale backend."""
    for case in experiment.cases:
        assert case.document is not None, "cases are made by the loader"
        for place, problem in _refusals(case, case.document):
            raise place.error(problem)
    if experiment.document is not None:
        _check_metrics(experiment, experiment.document)


def _refusals(case: Case, document: Value) -> Iterator[tuple[Value, str]]:
    members = document.items()
    for name in ("p4", "plugins", "timing"):
        if name in members:
            yield members[name], "has no meaning for the scale backend, which has no packets: leave it out"
    fabric = build_fabric(case.fabric)
    yield from _fabric_refusals(fabric, members["fabric"])
    measured = members["measure"].items() if "measure" in members else {}
    for name in ("links", "queues"):
        if name in measured and getattr(case.measure, name):
            yield measured[name], f"the scale backend records flows, and no {name}: leave it out"
    first = case.tenants[0].transport
    sections = [members["transport"]] if "transport" in members else []
    for tenant, work, transport in zip(case.tenants, *tenant_places(case, document), strict=True):
        yield from _workload_refusals(tenant.workload, work)
        yield from _type_refusals(tenant, transport)
        given = tenant.transport
        if (given.type, given.attributes, given.paths) != (first.type, first.attributes, first.paths):
            yield transport, "the scale backend gives all tenants the same type of transport, attributes and paths"
        sections += [work.items()["transport"]] if "transport" in work.items() else []
    for section in sections:
        yield from _transport_refusals(section)
    if "faults" in members:
        yield from _fault_refusals(case, fabric, members["faults"])


def _fabric_refusals(fabric: Fabric, place: Value) -> Iterator[tuple[Value, str]]:
    if fabric.t2_count and fabric.wiring is not T2Wiring.GROUPS:
        keys = place.items()
        where = keys.get("t2_wiring", keys.get("file", place))
        yield where, "the scale backend computes T2s that join T1s of one number only: take t2_wiring: groups"
    said = {
        "reroute": fabric.reroute_ns is not None,
        "pfc": fabric.queues.pfc,
        "kernel_switches": bool(fabric.kernel_switches),
        "queues": replace(fabric.queues, pfc=False) != QueueProfile(),
    }
    for name in filter(said.get, said):  # in a fabric file, perhaps
        where = place.items().get(name, place.items().get("file", place))
        yield where, f"the scale backend computes no {name}: leave it out"
    yield from _unread(place, _FABRIC)


def _unread(place: Value, read: Collection[str]) -> Iterator[tuple[Value, str]]:
    """The keys of a section that nothing reads."""
    for name, member in place.items().items():
        if name not in read:
            yield member, f"the scale backend does not compute what this changes; it reads {', '.join(read)}"


def _workload_refusals(workload: Workload, place: Value) -> Iterator[tuple[Value, str]]:
    keys = place.items()
    if not isinstance(workload, WORKLOADS):
        known = ", ".join(kind.name for kind in WORKLOADS)
        yield keys.get("kind", place), f"the scale backend runs {known} only"
    if isinstance(workload, Ranks):
        for name in _RANKS_REFUSED:
            if name in keys:
                yield keys[name], "the scale backend does not compute what this changes: leave it out"


def _type_refusals(tenant: Tenant, place: Value) -> Iterator[tuple[Value, str]]:
    kind, where = tenant.transport.type, place.items().get("type", place)
    if kind not in TRANSPORTS:
        yield where, f"the scale backend runs {' and '.join(TRANSPORTS)} only, not {kind}"
    if kind == "rc" and isinstance(tenant.workload, Ranks | Replayed):
        yield where, "the scale backend runs collectives, training and schedules over mrc only"


def _transport_refusals(section: Value) -> Iterator[tuple[Value, str]]:
    yield from _unread(section, _TRANSPORT)
    for name, read in (("attributes", _ATTRIBUTES), ("settings", _SETTINGS)):
        if name in section.items():
            yield from _unread(section.items()[name], read)


def _fault_refusals(case: Case, fabric: Fabric, place: Value) -> Iterator[tuple[Value, str]]:
    written = {fault.line: fault for fault in place.elements()}
    for planned in case.faults:
        if planned.line not in written:  # it was drawn for flaps, which take links down
            continue
        fault = written[planned.line]
        kind = fault.items()["kind"]
        name = kind_named(kind.text().strip()).name
        if name not in FAULTS:
            yield kind, f"{name} has no effect that the scale backend computes; it knows {', '.join(FAULTS)}"
            continue
        effect = SIMULATION.effect_of(fabric, planned.fault)
        down = set(effect.down)
        for end, loss, corruption in effect.losses(fabric):
            link = fabric.link_at(end)
            if case.tenants[0].transport.type == "rc" and max(loss, corruption) < ALWAYS:
                yield fault, "the scale backend computes no losses of less than 100 % for rc"
                break
            if link is not None and link.kind is LinkKind.NIC_T0 and link.name not in down:
                yield fault, f"the scale backend computes no losses at NICs, as of {link.name}: take the link down"
                break


def _check_metrics(experiment: Experiment, document: Value) -> None:
    """FileError for the first metric, expected or reported, that is not computed."""
    keys = document.items()
    asked = [(one.metric, one.backend) for one in experiment.expect]
    shown = [(one.metric, "") for one in experiment.report]
    for name, metrics, hint in (("expect", asked, ": write backend: sim beside it"), ("report", shown, "")):
        for (metric, backend), place in zip(metrics, keys[name].elements() if metrics else (), strict=True):
            if backend not in ("", "scale"):
                continue
            if metric not in METRICS:
                raise place.items()["metric"].error(f"{metric} is not computed by the scale backend{hint}")
            if metric in _OF_LOSSES and any(case.tenants[0].transport.type == "rc" for case in experiment.cases):
                raise place.items()["metric"].error(f"{metric} is not computed for rc by the scale backend{hint}")
