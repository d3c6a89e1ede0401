from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mrc_host.config import Dscp, EvOrder
from tests.topologies.random_fabrics import random_fabric
from tests.topologies.shapes import SHAPES, build
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError
from topologies.fabric import Fabric, LinkKind
from topologies.loader import dump_text, load_file, load_text

RACKS = "name: small\nplanes: 2\nt1: 2\n"
SMALL = "name: small\nplanes: 2\nt0: 2\nt1: 2\nhosts: 4\n"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_fabric_survives_writing_and_reading(shape: dict[str, int]) -> None:
    fabric = build(shape)
    assert load_text(dump_text(fabric)) == fabric


def test_every_setting_survives() -> None:
    text = SMALL + (
        "rate: 40M\nuplink_rate: 2.5M\nmtu: 9000\nusid_block: fc00:1::/32\naddress_prefix: 'fd12:3456:789a::/48'\n"
        "protocol: {udp_port: 4971, ev_order: high_in_source_port, hop_limit: 9, dscp: {control: 40}}\n"
    )
    fabric = load_text(text)
    assert {link.rate_bps for link in fabric.links if link.kind is LinkKind.NIC_T0} == {40_000_000}
    assert {link.rate_bps for link in fabric.links if link.kind is LinkKind.T0_T1} == {2_500_000}
    assert (fabric.mtu, fabric.usid_block, fabric.address_prefix) == (9000, 0xFC00_0001, 0xFD12_3456_789A)
    settings = fabric.settings
    assert (settings.udp_port, settings.ev_order, settings.hop_limit) == (4971, EvOrder.HIGH_IN_SOURCE_PORT, 9)
    assert settings.dscp == Dscp(control=40)
    assert load_text(dump_text(fabric)) == fabric


def test_sizes_and_file_describe_the_same_fabric(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    assert load_file(path) == multi_plane_clos("small", planes=2, t0=2, t1=2, hosts=4)


@pytest.mark.parametrize(
    ("text", "expected_message"),
    [
        ("", "my.yaml: is empty"),
        ("- 1", "must be a mapping of keys and values, not a list"),
        ("hello", "must be a mapping of keys and values, not 'hello'"),
        ("name: x", "planes is missing: planes; each host has"),
        (SMALL + "plane: 3", "line 6: plane: unknown key; did you mean planes?"),
        (SMALL + "colour: red", "line 6: colour: unknown key; known are name, planes"),
        (SMALL + "planes: 3", "line 6: planes: is given twice"),
        (SMALL.replace("t0: 2", "t0: two"), "line 3: t0: must be a whole number, not 'two'"),
        (SMALL.replace("t0: 2", "t0: yes"), "t0: must be a whole number, not 'yes'"),
        (SMALL.replace("t0: 2", "t0: 2.5"), "t0: must be a whole number, not '2.5'"),
        (SMALL.replace("hosts: 4", "hosts: 3"), "3 hosts cannot be spread evenly over 2 T0 groups"),
        (SMALL.replace("small", "[a]"), "name: must be a single value, not a list"),
        (SMALL + "rate: fast", "rate: must be a rate such as 100G or 40Mb/s, not 'fast'"),
        (SMALL + "rate: -5", "line 6: rate: is -5, but must be 1 b/s to"),
        (SMALL + "usid_block: fc00::/48", "usid_block: must be an IPv6 prefix of length 32"),
        (SMALL + "address_prefix: 10.0.0.0/8", "address_prefix: must be an IPv6 prefix of length 48"),
        (SMALL + "protocol: 5", "protocol: must be a mapping"),
        (SMALL + "protocol: {port: 1}", "protocol.port: unknown key; did you mean udp_port?"),
        (SMALL + "protocol: {udp_port: 0}", "protocol.udp_port: is 0, but must be 1 to 65535"),
        (SMALL + "protocol: {ev_order: both}", "ev_order: 'both' is unknown; known are low_in_source_port, high"),
        (SMALL + "protocol: {ev_order: [1]}", "ev_order: must be a single value, not a list"),
        (SMALL + "protocol: {dscp: {control: 64}}", "protocol.dscp.control: is 64, but must be 0 to 63"),
        (SMALL + "protocol: {dscp: {control: 0}}", "dscp values must all differ"),
        ("name: [", "line 1: "),
        ("name: *x", "undefined alias"),
        (SMALL + "mtu: !!python/object:os.system x", "is not a value that YAML knows"),
        (SMALL.replace("small", "0x" + "f" * 10_000), "fabric name '0xfff"),
        (SMALL + "rate: 0x" + "f" * 10_000, "rate: must be a rate such as"),
        (SMALL.replace("hosts: 4", "hosts: 0x" + "f" * 10_000), "hosts: is 0xffff"),
        (SMALL + f"rate: {'9' * 400}G", "rate: must be a rate such as"),
        (
            SMALL + "\nt3: 4",
            "line 7: t3: a fabric has three tiers at most: T0, T1, T2, T1, T0 and the NIC take all six",
        ),
        (
            SMALL + "\ntiers: 3",
            "line 7: tiers: the number of tiers follows from t2: without it two, with it three",
        ),
        (
            SMALL + "\nclusters: 2",
            "line 7: clusters: clusters are pods that T2s join: write pods, t2, and",
        ),
        (
            SMALL + "pods: 2",
            "line 6: pods: 2 pods need at least one T1 each and one T2 per plane to join them",
        ),
        (SMALL + "pods: 2\nt2: 3", "line 7: t2: 3 T2s cannot be divided evenly over the 2 T1s of a pod"),
        (SMALL + "t2_wiring: ring", "line 6: t2_wiring: 'ring' is unknown; known are groups, mesh"),
        (SMALL + "racks: [2]", "line 3: t0: follows from racks: leave it out"),
        (RACKS + "racks: 4", "line 4: racks: must list the hosts of each T0, as in [4, 2], or of each pod"),
        (RACKS + "racks: [[2], 2]", "line 4: racks: has numbers of hosts, or lists of them, not both"),
        (RACKS + "racks: [2, 0]", "line 4: racks[1]: is 0, but must be 1 to 1024"),
        (RACKS + "racks: [2, two]", "line 4: racks[1]: must be a whole number, not 'two'"),
        (
            RACKS + "racks: [509, 1]",
            "line 4: racks: switch t0-0@p0 has 511 ports, but a P4 switch has 509 at most",
        ),
        (SMALL + "ports: {h1: 0}", "line 6: ports.h1: is 0, but must be 1 to 8"),
        (SMALL + "ports:\n  h1: 3", "line 7: ports.h1: 'h1' cannot have ports in 3 planes: there are 2"),
        (SMALL + "ports:\n  t0-0: 1", "line 7: ports.t0-0: is no host"),
        (SMALL + "ports:\n  h9: 1", "line 7: ports.h9: no link matches 'h9@p1'"),
        (SMALL + "links: [h1@p0]", "line 6: links: must be a mapping of keys and values, not a list"),
        (SMALL + "links:\n  h1@p0: gone", "line 7: links.h1@p0: must be missing, or a mapping, not 'gone'"),
        (
            SMALL + "links:\n  h1@p0: {speed: 1}",
            "line 7: links.h1@p0.speed: unknown key; known are rate, delay",
        ),
        (
            SMALL + "links:\n  h1@p0:\n    rate: 1M\n    delay: 5",
            "line 9: links.h1@p0.delay: '5' has no unit: write 5us",
        ),
        (SMALL + "links:\n  h1@p0:\n    rate: fast", "line 8: links.h1@p0.rate: must be a rate such as"),
        (
            SMALL + "links:\n  t1-t2: {rate: 1M}",
            "line 7: links.t1-t2: there are no t1-t2 links in this fabric",
        ),
        (SMALL + "links:\n  h1@p0: {rate: 1}", "line 7: links: rate of link h1@p0 is 1 b/s"),
        (SMALL + "links:\n  h1@p*: missing", "line 7: links: h1 has no link in any plane"),
        (
            SMALL + "ports: {h1: 1}\nlinks:\n  h3@p0: missing",
            "line 8: links: h1 and h3 have no path in any plane",
        ),
        (SMALL + "links:\n  t0-0:t1-*: missing", "line 7: links: h1 and h3 have no path in any plane"),
    ],
)
def test_mistakes_are_reported_with_help(text: str, expected_message: str) -> None:
    with pytest.raises(FabricError) as raised:
        load_text(text, source="my.yaml")
    message = str(raised.value)
    assert re.match(r"my\.yaml(, line [0-9]+)?: ", message)
    assert expected_message in message
    assert "\n" not in message
    assert len(message) < 300


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(FabricError, match="cannot be read: No such file"):
        load_file(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x80")
    with pytest.raises(FabricError, match="not a text file in UTF-8"):
        load_file(tmp_path / "binary.yaml")
    (tmp_path / "big.yaml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(FabricError, match="It has more than 1 MiB, which is the most"):
        load_file(tmp_path / "big.yaml")


@pytest.mark.parametrize("seed", range(60))
def test_any_fabric_survives_writing_and_reading(seed: int) -> None:
    print(f"seed {seed}")
    fabric = random_fabric(random.Random(seed))
    assert load_text(dump_text(fabric)) == fabric


TIERS = """
name: tiers
planes: 2
t1: 2
racks: [[2, 1], [1]]
t2: 2
rate: 100M
uplink_rate: 200M
ports: {h2: 1}
links:
  t1-t2: {rate: 400M, delay: 20us}
  t0-0:t1-1@p1: missing
  t1-0:t2-*@p0: {rate: 50M}
"""


def test_a_three_tier_file_sets_rate_and_delay_of_every_link() -> None:
    fabric = load_text(TIERS)
    assert (fabric.pods, fabric.t0_count, fabric.t1_count, fabric.t2_count, len(fabric.nics)) == (2, 3, 4, 2, 4)
    rates = {link.name: (link.rate_bps // 10**6, link.delay_ns) for link in fabric.links}
    assert rates["h1@p0"] == (100, None)
    assert rates["t0-2:t1-3@p1"] == (200, None)
    assert rates["t1-1:t2-1@p0"] == (400, 20_000)
    assert rates["t1-0:t2-0@p0"] == (50, 20_000)
    assert not {"t0-0:t1-1@p1", "h2@p1"} & rates.keys()
    assert load_text(dump_text(fabric)) == fabric


WORDS = st.sampled_from(
    ["name", "planes", "t0", "t1", "t2", "hosts", "pods", "racks", "ports", "links", "rate", "delay", "missing", "mesh",
     "t1-t2", "nic-t0", "h1@p0", "h*@p1", "t0-0:t1-*@p0", "h1", "40M", "20us", "mtu", "queues", "protocol", "dscp"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
NEARLY = st.fixed_dictionaries(
    {"name": st.just("x") | VALUES, "planes": st.integers(1, 3) | VALUES, "t1": st.integers(0, 3) | VALUES},
    optional={
        "t0": st.integers(1, 3) | VALUES,
        "hosts": st.integers(1, 12) | VALUES,
        "pods": st.integers(1, 3) | VALUES,
        "t2": st.integers(0, 4) | VALUES,
        "t2_wiring": WORDS,
        "racks": st.lists(st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=3), max_size=3) | VALUES,
        "ports": st.dictionaries(st.sampled_from(["h1", "h*", "h[2,3]", "x"]), st.integers(0, 4), max_size=2) | VALUES,
        "links": st.dictionaries(WORDS, st.just("missing") | VALUES, max_size=4) | VALUES,
        "rate": VALUES,
        "queues": VALUES,
        "protocol": VALUES,
    },
)


def made(text: str) -> tuple[Fabric | None, str | None]:
    try:
        return load_text(text, source="my.yaml"), None
    except FabricError as error:
        return None, str(error)


@given(VALUES | NEARLY)
def test_any_document_gives_a_fabric_or_a_clear_error(document: object) -> None:
    text = yaml.safe_dump(document)
    fabric, expected_message = made(text)
    assert expected_message is None or re.fullmatch(r"my\.yaml(, line [0-9]+)?: .*", expected_message)
    assert fabric is None or load_text(dump_text(fabric)) == fabric


@given(st.text(max_size=60))
def test_any_text_gives_a_fabric_or_a_clear_error(text: str) -> None:
    with pytest.raises(FabricError, match=r"\Amy\.yaml[:,]"):
        load_text(text, source="my.yaml")


def test_a_pipe_or_device_is_refused_without_blocking(tmp_path: Path) -> None:
    pipe, endless = tmp_path / "pipe.yaml", tmp_path / "endless.yaml"
    os.mkfifo(pipe)
    endless.symlink_to("/dev/zero")
    for path in (pipe, endless):
        with pytest.raises(FabricError, match=r"\.yaml: cannot be read: It is a (pipe|device), not a regular file"):
            load_file(path)
