"""The agent's configuration file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mrc_host.agent.config_file import dump_config, load_config, parse_config
from mrc_host.back_to_back import nic_config
from mrc_host.config import PausePriorities
from mrc_host.verbs.remote.codec import CodecError


def test_a_configuration_survives_writing_and_reading(tmp_path: Path) -> None:
    config = nic_config(1, nics=4, planes=3)
    path = tmp_path / "nic.json"
    path.write_text(dump_config(config))
    assert load_config(path) == config


def test_the_configuration_includes_flow_control() -> None:
    config = replace(nic_config(1), pause=PausePriorities(data=(0,), control=(6, 7)))
    assert parse_config(dump_config(config)) == config


def test_addresses_and_numbers_are_written_in_readable_form() -> None:
    data = json.loads(dump_config(nic_config(0)))
    assert data["block"] == "fc00::/32"
    assert data["address"] == "fd00:6d:7263::1"
    assert data["ports"][1]["mac"] == "02:00:00:00:00:01"
    assert data["destinations"][0]["template"]["base"] == "fc00:0:6001::"


def _change(path: str, value: Any) -> str:
    data = json.loads(dump_config(nic_config(0)))
    where: Any = data
    *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    for part in way:
        where = where[part]
    if value is None:
        del where[last]
    else:
        where[last] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("name", 5, "At name: expected a text, not 5."),
        ("nonsense", 1, "unknown key 'nonsense'"),
        ("address", None, "the key 'address' is missing"),
        ("address", "02:00:00:00:00:01", "At address: expected an IPv6 address"),
        ("block", "fc00::/40", "At block: 'fc00::/40' is not a 32-bit prefix"),
        ("block", "fc00:0:1::/32", "At block: "),
        ("block", "fc00:::/32", "At block: 'fc00:::' is not an IPv6 address"),
        ("ports", [], "At ports: a NIC needs at least one port"),
        ("ports/1/plane", 0, r"At ports\[1\].plane: port 1 belongs to plane 1, not 0"),
        ("ports/1/mac", "fd00::1", r"At ports\[1\].mac: expected a MAC address"),
        ("ports/0/usid", 65536, r"At ports\[0\].usid: a uSID must be from 1 to 65535, not 65536"),
        ("ports/0/rate_bps", -1, r"At ports\[0\].rate_bps: "),
        ("ports/0/interface", None, r"At ports\[0\]: the key 'interface' is missing"),
        ("destinations/0/evs", [], r"At destinations\[0\].evs: h2 has no entropy values"),
        ("destinations/0/template/base", "fc00::zz:1", r"At destinations\[0\].template.base: "),
        ("destinations/0/template/plane_shifts", 5, r"At destinations\[0\].template.plane_shifts: expected a list"),
        ("settings/ev_order", "sideways", "At settings.ev_order: 'sideways' is not one of"),
        ("settings/dscp/control", "x", "At settings.dscp.control: expected an integer"),
        ("mtu", 100, "At mtu: the MTU must be from 1280 to 65535 bytes, not 100"),
    ],
)
def test_errors_name_the_problem_and_its_location(path: str, value: Any, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        parse_config(_change(path, value))


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "nic.json"
    with pytest.raises(CodecError, match=f"Cannot read the configuration {path}: .*No such file"):
        load_config(path)
    path.write_text("{")
    with pytest.raises(CodecError, match=f"{path}: Not JSON"):
        load_config(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CodecError, match="Cannot read"):
        load_config(path)


def test_duplicate_destination_addresses_are_refused() -> None:
    data = json.loads(dump_config(nic_config(0)))
    data["destinations"] *= 2
    with pytest.raises(CodecError, match="two have the same address"):
        parse_config(json.dumps(data))
