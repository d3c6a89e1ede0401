"""Names, units and labels of series, against what node_exporter and Prometheus' conventions say of them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mrc_host.counters import Level, at_level
from mrc_lab.telemetry.nic_families import STANDARD, counter_family
from mrc_lab.telemetry.readings import NicReading
from tests.docs.blocks import DOCS
from tests.mrc_lab.telemetry.values import FABRIC, nic, program, reading, scraped, value, with_nic
from topologies.loader import load_text

_DERIVED = re.compile(r"mrc_(?:nic|port|queue_pair)_(\w+?)(?:_total)?")


def test_a_fabric_that_is_not_up_has_one_series():
    assert dict(scraped(None)) == {("mrc_up", frozenset()): 0}


def test_ports_have_the_names_and_units_of_node_exporter():
    found = scraped(reading())
    h1 = {"device": "h1", "port": "1"}
    assert value(found, "node_infiniband_port_data_transmitted_bytes_total", **h1) == 8003
    assert value(found, "node_infiniband_port_data_received_bytes_total", **h1) == 100
    assert value(found, "rdma_port_xmit_data_total", **h1) == 8003 // 4, "words of 4 bytes, as InfiniBand counts"
    assert value(found, "node_infiniband_rate_bytes_per_second", **h1) == 10_000_000, "80 Mb/s"
    assert value(found, "node_infiniband_state_id", **h1) == 4
    assert value(found, "node_infiniband_physical_state_id", **h1) == 5
    assert value(found, "node_infiniband_port_discards_transmitted_total", **h1) == 5
    assert value(found, "node_infiniband_port_discards_received_total", **h1) == 6


def test_a_port_without_a_link_partner_is_down_and_polls():
    one = nic("h1")
    found = scraped(with_nic(replace(one, ports=({**one.ports[0], "link_up": 0}, one.ports[1]))))
    assert value(found, "node_infiniband_state_id", device="h1", port="0") == 1
    assert value(found, "node_infiniband_physical_state_id", device="h1", port="0") == 2
    assert value(found, "node_infiniband_state_id", device="h1", port="1") == 4


def test_durations_are_seconds_and_reasons_are_labels():
    found = scraped(with_nic(nic("h1", tx_stalled_window_ns=1_500_000_000, drop_icrc=3, rx_nack_trimmed=7)))
    assert value(found, "mrc_nic_tx_stalled_seconds_total", device="h1", reason="window") == 1.5
    assert value(found, "mrc_nic_dropped_frames_total", device="h1", reason="icrc") == 3
    assert value(found, "node_infiniband_rx_icrc_encapsulated_errors_total", device="h1") == 3
    assert value(found, "mrc_nic_rx_nacks_total", device="h1", reason="trimmed") == 7


def test_round_trips_are_a_cumulative_histogram():
    found = scraped(
        with_nic(nic("h1", rtt_lt_1us=1, rtt_lt_4us=2, rtt_ge_4194304us=4, rtt_samples=7, rtt_sum_ns=20_000_000_000))
    )
    name = "mrc_nic_round_trip_seconds"
    buckets = {
        float(dict(labels)["le"]): count
        for (series, labels), count in found.items()
        if series == f"{name}_bucket" and ("device", "h1") in labels
    }
    assert [buckets[bound] for bound in (1e-6, 2e-6, 4e-6, 8e-6, 4.194304, float("inf"))] == [1, 1, 3, 3, 3, 7]
    assert value(found, f"{name}_sum", device="h1") == 20
    assert value(found, f"{name}_count", device="h1") == 7


def test_paths_and_windows_are_summarised_over_mrc_queue_pairs():
    found = scraped(reading())
    assert value(found, "mrc_nic_paths", device="h1", state="good") == 7
    assert value(found, "mrc_nic_paths", device="h1", state="skip") == 1
    assert value(found, "mrc_nic_paths", device="h1", state="denied") == 0
    assert value(found, "mrc_nic_congestion_window_bytes", device="h1") == 2000
    assert value(found, "mrc_nic_congestion_window_min_bytes", device="h1") == 1000


def test_queue_pairs_have_series_of_their_own_only_if_wanted():
    def of_pairs(wanted: bool) -> set[str]:
        return {name for name, _ in scraped(reading(), queue_pairs=wanted) if name.startswith("mrc_queue_pair_")}

    assert not of_pairs(False)
    assert {"mrc_queue_pair_cwnd_bytes", "mrc_queue_pair_paths", "mrc_queue_pair_base_rtt_seconds"} <= of_pairs(True)
    found = scraped(reading(), queue_pairs=True)
    assert value(found, "mrc_queue_pair_cwnd_bytes", device="h1", qpn="0x000012", remote="h4") == 3000


def test_a_nic_whose_queue_pairs_took_too_long_keeps_its_other_series():
    found = scraped(with_nic(replace(nic("h1", tx_data_packets=5), queue_pairs=None)))
    assert value(found, "mrc_nic_tx_data_packets_total", device="h1") == 5
    assert ("mrc_nic_paths", frozenset({("device", "h1"), ("state", "good")})) not in found


def test_an_agent_that_does_not_answer_leaves_one_series():
    found = scraped(with_nic(NicReading("h1", {}, problem="no answer")))
    assert [name for name, labels in found if ("device", "h1") in labels] == ["mrc_nic_up"]
    assert value(found, "mrc_nic_up", device="h1") == 0
    assert value(found, "mrc_nic_up", device="h2") == 1


def test_a_host_has_no_series_of_planes_where_it_has_no_link():
    fabric = load_text("{name: lab, planes: 2, t0: 2, t1: 2, hosts: 4, rate: 10M, links: {h2@p1: missing}}")
    found = scraped(reading(fabric))
    of_h2 = [dict(labels) for _, labels in found if ("device", "h2") in labels]
    assert {labels["port"] for labels in of_h2 if "port" in labels} == {"0"}
    assert len([labels for labels in of_h2 if "hca_type" in labels]) == 1


def test_links_have_a_state_and_traffic_in_both_directions():
    found = scraped(reading())
    h2 = {"link": "h2@p1", "kind": "nic-t0", "plane": "1"}
    assert value(found, "mrc_link_up", **h2) == 0
    assert value(found, "mrc_link_faults", **h2) == 1
    assert value(found, "mrc_link_rate_bytes_per_second", **h2) == 10_000_000
    assert value(found, "mrc_link_bytes_total", **h2, direction="up") == 100
    assert value(found, "mrc_link_bytes_total", **h2, direction="down") == 200
    assert value(found, "mrc_faults", kind="link_down", state="active") == 1
    assert value(found, "mrc_faults", kind="loss", state="active") == 0


def test_a_switch_counts_for_the_direction_in_which_a_packet_was_going():
    switch = FABRIC.switch("t0-0@p0")
    port = FABRIC.link("h1@p0").upper.port
    counted = {"marked_packets": 1, "trimmed_packets": 2, "no route": 4, "queue full": 8, "arrival_corrupted": 16}
    here = program(switch, of_port={port: counted})
    changed = tuple(here if one.switch == switch.name else one for one in reading().counters or ())
    found = scraped(replace(reading(), counters=changed))
    h1 = {"link": "h1@p0", "kind": "nic-t0", "plane": "0"}
    assert value(found, "mrc_link_ecn_marked_packets_total", **h1, direction="down") == 1
    assert value(found, "mrc_link_trimmed_packets_total", **h1, direction="down") == 2
    assert value(found, "mrc_link_dropped_packets_total", **h1, direction="up", switch=switch.name) == 4
    assert value(found, "mrc_link_dropped_packets_total", **h1, direction="down", switch=switch.name) == 8
    assert value(found, "mrc_link_corrupted_packets_total", **h1, direction="up", switch=switch.name) == 16


def test_queues_of_a_port_are_those_of_the_direction_that_leaves_it():
    found = scraped(reading())
    h1 = {"link": "h1@p0", "kind": "nic-t0", "plane": "0", "direction": "down"}
    assert value(found, "mrc_queue_depth_bytes", **h1) == 15
    assert value(found, "mrc_queue_peak_bytes", **h1) == 50
    assert value(found, "mrc_queue_dropped_packets_total", **h1) == 2
    assert ("mrc_queue_depth_bytes", frozenset({**h1, "direction": "up"}.items())) not in found, "a NIC's own queue"
    drops = {"switch": "t0-0@p0", "by": "switch"}
    assert value(found, "mrc_switch_dropped_packets_total", **drops, reason="queue_full") == 4
    assert ("mrc_switch_dropped_packets_total", frozenset({**drops, "reason": "ingress"}.items())) not in found


def test_a_controller_and_switches_that_do_not_answer_leave_the_nics():
    found = scraped(replace(reading(), links=None, faults=None, counters=None, switches=()))
    assert value(found, "mrc_controller_up") == 0
    assert value(found, "mrc_nic_up", device="h4") == 1
    assert not [name for name, _ in found if name.startswith(("mrc_link_", "mrc_switch_", "mrc_queue_", "mrc_faults"))]


def test_a_switch_that_the_controller_cannot_read_is_down():
    silent = replace(program(FABRIC.switches[0]), drops=(), ports=(), problem="it does not answer")
    found = scraped(replace(reading(), counters=(silent, *(reading().counters or ())[1:])))
    assert value(found, "mrc_switch_up", switch=FABRIC.switches[0].name) == 0
    assert value(found, "mrc_switch_up", switch=FABRIC.switches[1].name) == 1


@pytest.mark.parametrize("level", Level)
def test_every_counter_is_exported_or_left_out_on_purpose(level: Level):
    meant = {
        Level.NIC: {"rx_frames", "rx_bytes", "tx_frames", "tx_bytes", "rx_nacks", "tx_nacks"},  # sums of what is there
        Level.PORT: {"link_up"},  # the port's state
        Level.QP: set(),
    }
    missing = {
        info.name
        for info in at_level(level)
        if counter_family(level, info) is None and info.name not in STANDARD.get(level, {})
    }
    histogram = {name for name in missing if name.startswith("rtt_")}
    reasons = {name for name in missing if "_nack_" in name} if level is Level.QP else set()
    assert missing - histogram - reasons == meant[level]


def test_names_follow_the_conventions_of_prometheus():
    for name, _ in scraped(reading(), queue_pairs=True):
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert not re.search(r"_(ns|us|ms|bits|bps)(_|$)", name), name


def test_every_family_is_on_the_documentation_page():
    page = (DOCS / "telemetry.md").read_text()
    ours = {info.name for info in at_level(Level.NIC)} | {info.name for info in at_level(Level.PORT)}
    ours |= {info.name for info in at_level(Level.QP)}
    for name, _ in scraped(reading(), queue_pairs=True):
        bare = re.sub(r"_(bucket|sum|count)$", "", name) if "round_trip" in name else name
        derived = _DERIVED.fullmatch(bare)
        assert f"`{bare}`" in page or (derived and derived[1].replace("_seconds", "_ns") in ours), name
