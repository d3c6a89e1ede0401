"""Coordinated paths: shared evenly, and what the queue pairs then use."""

from collections import Counter

from mrc_lab.experiments.running.coordinated_paths import Coordination
from tests.mrc_lab.experiments.running.cases import case_of, run
from topologies.addressing import entropy_value
from topologies.clos import multi_plane_clos


def test_uplinks_are_shared_evenly_in_every_plane():
    fabric = multi_plane_clos(planes=2, t0=2, t1=4, hosts=8)
    coordination = Coordination(fabric, 2 * 3)
    used = Counter(ev for host in (1, 2, 3, 4) for ev in coordination.evs(f"h{host}", "h5"))
    assert used == Counter({entropy_value(plane, uplink): 3 for plane in range(2) for uplink in range(4)})


def test_racks_are_independent_and_paths_within_one_are_unique():
    fabric = multi_plane_clos(planes=1, t0=2, t1=4, hosts=8)
    coordination = Coordination(fabric, 1)
    assert coordination.evs("h1", "h2") == ()
    assert coordination.evs("h1", "h5") == coordination.evs("h5", "h1") == (entropy_value(0, 0),)
    assert coordination.evs("h2", "h6") == (entropy_value(0, 1),)


def test_coordinated_single_path_flows_do_not_collide():
    parts = {"fabric": "{planes: 1, t0: 2, t1: 4, hosts: 8, rate: 100G}"}
    load = "{kind: write_bw, pairs: [h1>h5, h2>h6, h3>h7, h4>h8], bidirectional: yes}"
    recording = run(case_of(load, "100us", transport="{paths: 1, ev_choice: coordinated}", **parts))
    sent = recording.link_samples[-1, :, 1] - recording.link_samples[0, :, 1]
    bytes_by_line = dict(zip(recording.channels, sent, strict=True))
    uplinks = [int(bytes_by_line[f"t0-{rack}:t1-{n}@p0>"]) for rack in range(2) for n in range(4)]
    assert min(uplinks) > 0.9 * max(uplinks)
    assert recording.errors == ()
    assert sum(recording.trimmed.values()) == 0
