"""Topologies of htsim: what is read, and what is refused with its line."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from mrc_lab.errors import FileError
from mrc_lab.workloads.htsim.topology import FatTree, FatTreeTier, parse_topology, read_topology
from tests.mrc_lab.workloads.htsim.random_files import random_tree
from tests.seeds import SEED

# As in fat_tree_128_4os.topo of uet-htsim; numbers of its switches as that prints them.
THREE_TIERS = """# a comment
Nodes 128
Tiers 3
Podsize 16

Tier 0
Oversubscribed 1
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 4
Downlink_Latency_ns 1000
Switch_Latency_ns 0

Tier 1
OVERSUBSCRIBED 4
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 1
Downlink_Latency_ns 700
Bundle 1

Tier 2
Downlink_speed_Gbps 100
Radix_Down 8
Downlink_Latency_ns 500
"""


def test_three_tiers_are_read() -> None:
    found = parse_topology(THREE_TIERS, "x.topo")
    tiers = FatTreeTier(100, 4, 4, 1000), FatTreeTier(100, 4, 1, 700, 0, 4), FatTreeTier(100, 8, 0, 500)
    assert found == FatTree(128, 16, tiers)
    assert (found.pods, found.t0_per_pod, found.t1_per_pod, found.t2) == (8, 4, 4, 4)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Nodes 128", "", "x.topo: has no Nodes"),
        ("Nodes 128", "Nodes 0", "line 2: Nodes is a whole number from 2"),
        ("Nodes 128", "Nodes 120", "line 4: Nodes (120) must be a multiple of Podsize (16)"),
        ("Nodes 128", "Nodes 99999999999", "line 2: Nodes is a whole number"),
        ("Tiers 3", "Tiers 4", "line 3: Tiers is a whole number from 2 to 3"),
        ("Tiers 3", "Tiers 2", "x.topo: Tiers is 2, but tier 2 is there"),
        ("Tier 2", "Tier 3", "line 22: Tier is a whole number from 0 to 2"),
        ("Tier 2", "Tier 1", "line 22: tier 1 is there already"),
        ("Podsize 16", "Podsize 18", "must be a multiple"),
        ("Podsize 16", "Podzise 16", "line 4: 'Podzise' is unknown; did you mean Podsize?"),
        ("Tier 0\n", "", "line 6: Oversubscribed is about a tier: write 'Tier 0' before it"),
        ("Tier 0\n", "Tier 0\nNodes 5\n", "line 7: Nodes stands before the first Tier"),
        ("Radix_Up 4", "Radix_Up -4", "line 10: Radix_Up is a whole number from 1 to 1,024, not '-4'"),
        ("Radix_Up 4\n", "", "x.topo: tier 0 has no Radix_Up"),
        ("Radix_Up 4", "Radix_Up", "line 10: Radix_Up has one value"),
        ("Radix_Up 4", "Radix_Up 2", "Oversubscribed cannot be 1"),
        ("Radix_Up 4", "Radix_Up 4\nRadix_Up 4", "line 11: Radix_Up is there already, in line 10"),
        ("Radix_Down 8", "Radix_Down 9", "line 24: 8 pods lead to each T2, not 9"),
        ("Radix_Down 8", "Radix_Down 8\nRadix_Up 1", "line 25: tier 2 is the highest and has no uplinks"),
        ("OVERSUBSCRIBED 4", "Oversubscribed 2", "line 15: tier 1 has 400 Gb/s downwards and 100 upwards"),
        ("Bundle 1", "Bundle 2", "line 20: links between the same two switches are one link here"),
        ("Bundle 1", "Queue_Up 100000", "line 20: Queue_Up: no published htsim runs a file with it"),
        ("Bundle 1", "queue_down 100000", "line 20: queue_down: no published htsim runs a file with it"),
        ("Downlink_Latency_ns 500", "Downlink_Latency_ns 0", "line 25: Downlink_Latency_ns is a whole number from 1"),
        ("Downlink_Latency_ns 500", "Downlink_Latency_ns 1.5", "line 25: Downlink_Latency_ns is a whole number"),
        ("Downlink_Latency_ns 500", "", "x.topo: tier 2 has no Downlink_Latency_ns"),
    ],
)
def test_what_is_wrong_is_refused_in_one_sentence(old: str, new: str, message: str) -> None:
    with pytest.raises(FileError) as refused:
        parse_topology(THREE_TIERS.replace(old, new), "x.topo")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_two_tiers_are_one_pod() -> None:
    two = (
        "Nodes 8\nTiers 2\nPodsize 4\nTier 0\nDownlink_speed_Gbps 1\nRadix_Down 2\nRadix_Up 2\nDownlink_Latency_ns 1\n"
    )
    two += "Tier 1\nDownlink_speed_Gbps 1\nRadix_Down 2\nDownlink_Latency_ns 1\n"
    with pytest.raises(FileError, match="line 3: with two tiers nothing joins pods: Podsize must be 8"):
        parse_topology(two, "x.topo")


def test_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.topo")
    with pytest.raises(FileError, match="It is a pipe, not a regular file"):
        read_topology(tmp_path / "x.topo")


def test_random_topologies_are_read_as_they_were_written() -> None:
    for seed in range(SEED, SEED + 200):
        tree = random_tree(random.Random(seed))
        assert parse_topology(tree.text(), "x.topo") == tree, f"seed {seed}"


def test_damaged_files_are_read_or_refused_in_one_sentence() -> None:
    words = ["-1", "0", "99999999999", "Tier 1", "Nodes", "\x00", "1e9", "\n", "Bundle 2", "Queue_Up 5"]
    for seed in range(SEED, SEED + 1000):
        chance = random.Random(seed)
        text = random_tree(chance).text()
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice(["", chance.choice(words)]) + text[at + chance.choice([0, 1, 5, 50]) :]
        try:
            found = parse_topology(text, "x.topo")
        except FileError as error:
            said = str(error)
        else:
            said = "x.topo: fine"
            assert parse_topology(found.text(), "x.topo") == found, f"seed {seed}"
        assert said.startswith("x.topo"), f"seed {seed}"
        assert len(said) < 250, f"seed {seed}"
        assert "\n" not in said, f"seed {seed}"
