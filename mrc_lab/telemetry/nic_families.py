"""Families of NICs, their ports and queue pairs, derived from the table of counters (:mod:`mrc_host.counters`).

A counter that node_exporter's `infiniband` collector or exporters of RDMA counters publish has their names: STANDARD
says which. Every other counter is called ``mrc_nic_``, ``mrc_port_`` or ``mrc_queue_pair_`` and its name in the table,
nanoseconds as seconds; groups of counters that differ in one word (states, reasons, histogram) are one family with
a label.

The device of a series is its host, a port is its plane. What queue pairs count belongs to no port, since they spray
over all of them: such series have a device only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from mrc_host.counters import RTT_BUCKETS, CounterInfo, Level, at_level, rtt_name
from mrc_host.driver.nic_port import PortStatus
from mrc_host.verbs_types import PathState
from mrc_lab.telemetry.family_set import Family, FamilySet
from mrc_lab.telemetry.readings import NicReading, QueuePairReading
from topologies.fabric import Fabric

DEVICE, PORT, QUEUE_PAIR = ("device",), ("device", "port"), ("device", "qpn", "remote")
NIC_UP = Family("mrc_nic_up", "Whether the NIC's agent answers.", DEVICE)
NIC_INFO = Family(
    "node_infiniband_info", "The NIC; the value is always 1.", ("device", "board_id", "firmware_version", "hca_type")
)
PORT_INFO = Family(
    "rdma_port_info", "State of a port in words; the value is always 1.",
    ("device", "port", "netdev", "link_layer", "state", "phys_state"),
)  # fmt: skip
STATE = Family("node_infiniband_state_id", "State of the port (1: down, 4: active).", PORT)
PHYSICAL_STATE = Family("node_infiniband_physical_state_id", "Physical state (2: polling, 5: link up).", PORT)
RATE = Family("node_infiniband_rate_bytes_per_second", "Rate of the port's link.", PORT)
WORDS = (
    ("rx_bytes", Family("rdma_port_rcv_data_total", "Data received, in words of 4 bytes.", PORT)),
    ("tx_bytes", Family("rdma_port_xmit_data_total", "Data transmitted, in words of 4 bytes.", PORT)),
)
_NOT_TAKEN = "Frames that the port's interface did not take."
DISCARDS = (
    ("rx_dropped", Family(
        "node_infiniband_port_discards_received_total", "Frames dropped before the NIC could receive them.", PORT)),
    ("tx_dropped", Family("node_infiniband_port_discards_transmitted_total", _NOT_TAKEN, PORT)),
    ("tx_dropped", Family("rdma_port_xmit_discards_total", _NOT_TAKEN, PORT)),
)  # fmt: skip
STANDARD: Mapping[Level, Mapping[str, tuple[str, ...]]] = {
    Level.PORT: {
        "rx_bytes": ("node_infiniband_port_data_received_bytes_total",),
        "tx_bytes": ("node_infiniband_port_data_transmitted_bytes_total",),
        "rx_frames": ("node_infiniband_port_packets_received_total", "rdma_port_rcv_packets_total"),
        "tx_frames": ("node_infiniband_port_packets_transmitted_total", "rdma_port_xmit_packets_total"),
        "link_downed": ("node_infiniband_link_downed_total", "rdma_link_downed_total"),
        "link_recovered": ("node_infiniband_link_error_recovery_total", "rdma_link_error_recovery_total"),
    },
    Level.NIC: {
        "duplicate_request": ("node_infiniband_duplicate_requests_packets_total", "rdma_duplicate_request_total"),
        "out_of_sequence": ("node_infiniband_out_of_sequence_packets_received_total", "rdma_out_of_sequence_total"),
        "packet_seq_err": ("node_infiniband_packet_sequence_errors_total", "rdma_packet_seq_err_total"),
        "rnr_nak_received": ("node_infiniband_rnr_nak_retry_packets_received_total", "rdma_rnr_nak_retry_err_total"),
        "local_ack_timeout_err": (
            "node_infiniband_local_ack_timeout_errors_total", "rdma_local_ack_timeout_err_total",
        ),
        "req_remote_access_errors": (
            "node_infiniband_req_remote_access_errors_total", "rdma_req_remote_access_errors_total",
        ),
        "resp_remote_access_errors": (
            "node_infiniband_resp_remote_access_errors_total", "rdma_resp_remote_access_errors_total",
        ),
        "np_ecn_marked_roce_packets": (
            "node_infiniband_np_ecn_marked_roce_packets_received_total", "rdma_np_ecn_marked_roce_packets_total",
        ),
        "np_cnp_sent": ("node_infiniband_np_cnp_packets_sent_total", "rdma_np_cnp_sent_total"),
        "rp_cnp_handled": ("node_infiniband_rp_cnp_packets_handled_total", "rdma_rp_cnp_handled_total"),
        "rx_write_requests": ("node_infiniband_rx_write_requests_total", "rdma_rx_write_requests_total"),
        "drop_icrc": ("node_infiniband_rx_icrc_encapsulated_errors_total", "rdma_rx_icrc_encapsulated_total"),
    },
}  # fmt: skip
"""Names of counters at other exporters, by level and our name."""

PATHS = Family("mrc_nic_paths", "Paths by state, summed over the NIC's queue pairs.", ("device", "state"))
WINDOW = Family("mrc_nic_congestion_window_bytes", "Mean congestion window of the NIC's MRC queue pairs.", DEVICE)
ROUND_TRIPS = Family("mrc_nic_round_trip_seconds", "Round-trip times of packets (MRC).", DEVICE)
MIN_WINDOW = Family("mrc_nic_congestion_window_min_bytes", "The smallest of these windows.", DEVICE)

_PREFIXES = {Level.NIC: "mrc_nic", Level.PORT: "mrc_port", Level.QP: "mrc_queue_pair"}
_LABELS = {Level.NIC: DEVICE, Level.PORT: PORT, Level.QP: QUEUE_PAIR}
_GROUPS = (  # counters of one family: how their names look, the family's name, its label, its meaning
    (re.compile(r"drop_(\w+)"), "dropped_frames_total", "reason", "Frames that arrived and were dropped, by reason."),
    (re.compile(r"tx_nack_(\w+)"), "tx_nacks_total", "reason", "NACKs sent, by reason."),
    (re.compile(r"rx_nack_(\w+)"), "rx_nacks_total", "reason", "NACKs received, by reason."),
    (re.compile(r"tx_stalled_(\w+)_ns"), "tx_stalled_seconds_total", "reason",
     "Time for which data waited, by reason (window, peer, paths), summed over queue pairs."),
    (re.compile(r"paths_(\w+)"), "paths", "state", "Paths by state."),
)  # fmt: skip
_LEFT_OUT = {  # sums over ports, over reasons and states; what the histogram has; and of queue pairs what is too much
    Level.NIC: re.compile(r"[rt]x_(frames|bytes|nacks)|rtt_.*"),
    Level.PORT: re.compile(r"link_up"),
    Level.QP: re.compile(r"[rt]x_nack_.*|rtt_(lt|ge)_.*"),
}
_BUCKETS = tuple((rtt_name(i), 1e-6 * 2**i if i < RTT_BUCKETS - 1 else float("inf")) for i in range(RTT_BUCKETS))


def add_nic(found: FamilySet, fabric: Fabric, nic: NicReading, *, queue_pairs: bool) -> None:
    """Add everything that an agent answered; of one that did not, that it is down."""
    found.add(NIC_UP, (nic.name,), not nic.problem)
    if nic.problem:
        return
    links = {plane: fabric.nic_link(fabric.nic(nic.name), plane) for plane in range(fabric.planes)}
    if any(links.values()):
        found.add(NIC_INFO, (nic.name, "mrc-testbed", _version(), "MRC"), 1)
    for plane, counters in enumerate(nic.ports):
        if link := links.get(plane):
            _add_port(found, nic.name, plane, counters)
            found.add(RATE, (nic.name, plane), link.rate_bps / 8)
    for interface in nic.interfaces:
        if links.get(interface.port):
            _add_interface(found, nic.name, interface)
    _add_counters(found, Level.NIC, (nic.name,), nic.counters)
    if "rtt_samples" in nic.counters:
        buckets = ((bound, nic.counters.get(name, 0)) for name, bound in _BUCKETS)
        found.add_histogram(ROUND_TRIPS, (nic.name,), buckets, nic.counters.get("rtt_sum_ns", 0) / 1e9)
    if nic.queue_pairs is not None:
        _add_sums(found, nic.name, nic.queue_pairs)
        for pair in nic.queue_pairs if queue_pairs else ():
            _add_counters(
                found, Level.QP, (nic.name, f"{pair.qpn:#08x}", pair.remote.rpartition(":")[0]), pair.counters
            )


def counter_family(level: Level, info: CounterInfo) -> tuple[Family, str] | None:
    """Our own family of a counter, and the value of its further label ("": it has none); None for what has none."""
    prefix, labels = _PREFIXES[level], _LABELS[level]
    if _LEFT_OUT[level].fullmatch(info.name):
        return None
    for pattern, name, label, meaning in _GROUPS:
        # Of a port, states are no groups: "paths" has them all, and a path may be both bad and denied.
        if (match := pattern.fullmatch(info.name)) and not (level is Level.PORT and label == "state"):
            return Family(f"{prefix}_{name}", meaning, (*labels, label)), match[1]
    name = re.sub(r"_ns$", "_seconds", info.name)
    name = re.sub(r"^bytes_(\w+)$", r"\1_bytes", name)
    return Family(f"{prefix}_{name}{'' if info.gauge else '_total'}", info.meaning, labels), ""


def _add_port(found: FamilySet, device: str, plane: int, counters: Mapping[str, int]) -> None:
    up = bool(counters.get("link_up"))
    found.add(STATE, (device, plane), 4 if up else 1)
    found.add(PHYSICAL_STATE, (device, plane), 5 if up else 2)
    words = ("ACTIVE", "LinkUp") if up else ("DOWN", "Polling")
    found.add(PORT_INFO, (device, plane, f"{device}-eth{plane}", "Ethernet", *words), 1)
    for name, family in WORDS:
        if name in counters:
            found.add(family, (device, plane), counters[name] // 4)
    _add_counters(found, Level.PORT, (device, plane), counters)


def _add_interface(found: FamilySet, device: str, interface: PortStatus) -> None:
    for field, family in DISCARDS:
        found.add(family, (device, interface.port), getattr(interface, field))


def _add_counters(found: FamilySet, level: Level, labels: tuple[object, ...], counters: Mapping[str, int]) -> None:
    for info, named in _declared(level):
        if info.name in counters:
            value = counters[info.name]
            for family, label in named:
                more = (label,) if label else ()
                found.add(family, (*labels, *more), value / 1e9 if info.unit == "ns" else value)


@cache
def _declared(level: Level) -> tuple[tuple[CounterInfo, tuple[tuple[Family, str], ...]], ...]:
    """Every counter of a level with the families that it has a value in, and the value's further label."""
    return tuple((info, tuple(_families_of(level, info))) for info in at_level(level))


def _families_of(level: Level, info: CounterInfo) -> Iterator[tuple[Family, str]]:
    standard = STANDARD.get(level, {}).get(info.name, ())
    yield from ((Family(name, info.meaning, _LABELS[level]), "") for name in standard)
    own = counter_family(level, info)
    if own is not None and (not standard or own[1]):  # a reason completes its family, whatever else it is called
        yield own


def _add_sums(found: FamilySet, device: str, pairs: Iterable[QueuePairReading]) -> None:
    """Paths by state, and windows, of all MRC queue pairs of a NIC; no window where there are none."""
    ours = [pair.counters for pair in pairs if pair.type.source_routed]
    for state in PathState:
        found.add(PATHS, (device, state.value), sum(counters.get(f"paths_{state.value}", 0) for counters in ours))
    windows = [counters["cwnd_bytes"] for counters in ours if counters.get("cwnd_bytes")]
    if windows:
        found.add(WINDOW, (device,), sum(windows) / len(windows))
        found.add(MIN_WINDOW, (device,), min(windows))


@cache
def _version() -> str:
    try:
        return version("mrc-testbed")
    except PackageNotFoundError:
        return ""
