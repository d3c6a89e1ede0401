from __future__ import annotations

import dataclasses
import itertools
import os
from pathlib import Path

import pytest

from mrc_host.config import Dscp, EvOrder
from tests.topologies.shapes import SHAPES, build
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError
from topologies.fabric import LinkKind
from topologies.loader import dump_text, load_file, load_text, parse_rate

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


def test_numbers_and_file_make_the_same_fabric(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    assert load_file(path) == multi_plane_clos("small", planes=2, t0=2, t1=2, hosts=4)


@pytest.mark.parametrize(
    ("text", "bits_per_second"),
    [("40M", 40_000_000), ("2.5G", 2_500_000_000), ("9600k", 9_600_000), ("100Mbit/s", 10**8), ("77", 77)],
)
def test_rates(text: str, bits_per_second: int) -> None:
    assert parse_rate("rate", text) == bits_per_second


# Ten lines that stand for 9 ** 9 words.
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in itertools.pairwise("abcdefghi")
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "a fabric file must be a mapping with keys such as 'name', not nothing"),
        ("- 1", "not a list"),
        ("hello", "not a word"),
        ("name: x", "planes is missing; name, planes, t0, t1, hosts are needed"),
        (SMALL + "plane: 3", "unknown key 'plane' in a fabric file: did you mean planes?"),
        (SMALL + "colour: red", "unknown key 'colour' in a fabric file: known keys are name"),
        (SMALL + "planes: 3", "line 6, column 1: key 'planes' is given twice"),
        (SMALL.replace("t0: 2", "t0: two"), "t0 must be a whole number, not 'two'"),
        (SMALL.replace("t0: 2", "t0: yes"), "t0 must be a whole number, not True"),
        (SMALL.replace("t0: 2", "t0: 2.5"), "t0 must be a whole number, not 2.5"),
        (SMALL.replace("hosts: 4", "hosts: 3"), "3 hosts cannot be spread evenly over 2 T0 groups"),
        (SMALL.replace("small", "[a]"), "name must be a word"),
        (SMALL + "rate: fast", "rate must be a rate such as 40M or 2.5G (b/s), not 'fast'"),
        (SMALL + "rate: -5", "rate of link h1@p0 is -5 b/s"),
        (SMALL + "usid_block: fc00::/48", "usid_block must be an IPv6 prefix of length 32"),
        (SMALL + "address_prefix: 10.0.0.0/8", "address_prefix must be an IPv6 prefix of length 48"),
        (SMALL + "protocol: 5", "protocol must be a mapping"),
        (SMALL + "protocol: {port: 1}", "unknown key 'port' in protocol: did you mean udp_port?"),
        (SMALL + "protocol: {udp_port: 0}", "udp_port is 0, but must be between 1 and 65535"),
        (SMALL + "protocol: {ev_order: both}", "ev_order must be low_in_source_port or high_in_source_port"),
        (SMALL + "protocol: {ev_order: [1]}", "ev_order must be low_in_source_port or high_in_source_port"),
        (SMALL + "protocol: {dscp: {control: 64}}", "dscp control is 64, but must be between 0 and 63"),
        (SMALL + "protocol: {dscp: {control: 0}}", "dscp values must all differ"),
        ("name: [", "line 1"),
        ("name: *x", "undefined alias"),
        ("? [a]\n: b", "a key must be a word"),
        ("[" * 3000, "nested too deeply"),
        ("name: !!python/object:os.system x", "could not determine a constructor"),
        ("\x00", "not allowed"),
        (BOMB, "has more than 1000 values, aliases written out"),
        ("&a [*a]", "has more than 1000 values, aliases written out"),
        (SMALL + "rate: !!bool y", "holds a value that YAML does not know"),
        (SMALL + "rate: !!int ''", "holds a value that YAML does not know"),
        (SMALL + "rate: !!timestamp x", "holds a value that YAML does not know"),
        (SMALL + "rate: 2001-13-45", "holds a value that YAML does not know"),
        (SMALL.replace("small", "0x" + "f" * 10_000), "name must be a word, not a number of more than 64 bits"),
        (SMALL + "rate: 0x" + "f" * 10_000, "not a number of more than 64 bits"),
        (SMALL.replace("hosts: 4", "hosts: 0x" + "f" * 10_000), "not a number of more than 64 bits"),
        (SMALL + f"rate: {'9' * 400}G", "rate must be a rate such as"),
    ],
)
def test_each_mistake_gets_one_helpful_sentence(text: str, sentence: str) -> None:
    with pytest.raises(FabricError) as raised:
        load_text(text, source="my.yaml")
    message = str(raised.value)
    assert message.startswith("my.yaml: ")
    assert sentence in message
    assert "\n" not in message
    assert len(message) < 300


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FabricError, match="cannot be read: No such file"):
        load_file(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x80")
    with pytest.raises(FabricError, match="not a text file in UTF-8"):
        load_file(tmp_path / "binary.yaml")
    (tmp_path / "big.yaml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(FabricError, match="at most"):
        load_file(tmp_path / "big.yaml")


def test_links_of_different_rates_cannot_be_written() -> None:
    fabric = multi_plane_clos()
    links = (dataclasses.replace(fabric.links[0], rate_bps=1_000_000), *fabric.links[1:])
    with pytest.raises(FabricError, match="one rate for all nic-t0 links"):
        dump_text(dataclasses.replace(fabric, links=links))


def test_a_pipe_or_device_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    pipe, endless = tmp_path / "pipe.yaml", tmp_path / "endless.yaml"
    os.mkfifo(pipe)
    endless.symlink_to("/dev/zero")
    for path in (pipe, endless):
        with pytest.raises(FabricError, match=r"\.yaml: is a pipe or device: a fabric file is a file"):
            load_file(path)
