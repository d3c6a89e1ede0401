import re
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mrc_common import strict_json
from mrc_common.frame_rings import RingEnd
from p4runtime_shim.config import (
    ConfigError,
    ProcessSettings,
    load_file,
    load_text,
    parse_interface,
    settings_from_options,
)
from p4runtime_shim.port_driver import Wires
from p4runtime_shim.traffic_manager import PauseConfig


def test_interfaces_are_parsed() -> None:
    assert parse_interface("1@eth0") == (1, "eth0")
    assert parse_interface("0@t0-0p0@x") == (0, "t0-0p0@x")


@pytest.mark.parametrize(
    "text", ["eth0", "@eth0", "1@", "-1@eth0", "511@eth0", "x@eth0", "1@a/b", "1@" + 16 * "a", "٣@eth0"]
)
def test_invalid_interfaces_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_interface(text)


@pytest.mark.parametrize("address", ["127.0.0.1:9559", "[::1]:0", "localhost:65535", "unix:/run/x", "unix-abstract:x"])
def test_addresses_are_parsed(address: str) -> None:
    assert load({**_one(), "grpc": address}).grpc_address == address


@pytest.mark.parametrize("address", ["9559", ":9559", "host:", "host:x", "host:65536", "unix:"])
def test_invalid_addresses_are_refused(address: str) -> None:
    with pytest.raises(ConfigError, match=r"x\.yaml, line 1: grpc: address"):
        load({**_one(), "grpc": address})


@pytest.mark.parametrize(
    ("rate", "expected"), [("2.5Gbit/s", 2_500_000_000), (" 1 g ", 10**9), (123, 123), ("0", None)]
)
def test_one_rate_is_that_of_all_ports(rate: object, expected: int | None) -> None:
    for name in ("rate", "rates"):
        (switch,) = load(_one(**{name: rate})).switches
        assert switch.rates.get(1) == expected


def test_a_file_with_every_setting_is_read(tmp_path: Path) -> None:
    file = tmp_path / "switches.yaml"
    file.write_text(
        """
grpc: unix:/run/mrc/x.sock
pcap: captures
capturing: false
trace: trace.txt
switches:
  - name: t0-0@p0
    device_id: 1
    ports: {1: a1, "2": a2}
    rates: {1: 100M}
    cpu_port: 510
    packet_in_rate: 100
    program: build/fabric.json
    seed: 7
    queues: {queues: 4, max_packets: 64}
    ports_down: [2]
  - {device_id: 2, ports: {1: b1, 2: b2}, rate: 1G}
"""
    )
    settings = load_file(file)
    assert settings.grpc_address == "unix:/run/mrc/x.sock"
    assert (settings.pcap, settings.capturing) == (tmp_path / "captures", False)
    assert settings.trace == str(tmp_path / "trace.txt")
    first, second = settings.switches
    assert (first.packet_in_rate, second.packet_in_rate) == (100, None)
    assert (first.name, first.device_id, first.ports) == ("t0-0@p0", 1, {1: "a1", 2: "a2"})
    assert (first.rates, first.cpu_port, first.seed) == ({1: 100_000_000}, 510, 7)
    assert (first.queues.queues, first.queues.max_packets) == (4, 64)
    assert first.program == tmp_path / "build/fabric.json"
    assert first.ports_down == {2}
    assert second.rates == {1: 10**9, 2: 10**9}
    assert second.label == "device 2"


def test_json_files_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "switches.json"
    file.write_text('{"switches": [{"device_id": 1, "ports": {"1": "a"}}]}')
    assert load_file(file).switches[0].ports == {1: "a"}


def load(document: object, name: str = "x.yaml") -> ProcessSettings:
    return load_text(strict_json.dumps(document), name)


def _one(**changes: Any) -> dict[str, Any]:
    return {"switches": [{"device_id": 1, "ports": {1: "a"}, **changes}]}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (None, "mapping"),
        ({}, "switches is missing"),
        ({"switches": []}, "switches: needs at least 1"),
        ({"switches": [5]}, "mapping"),
        ({"switchs": []}, "switchs: unknown key; did you mean switches"),
        ({"switches": [{"ports": {}}]}, "device_id is missing"),
        (_one(device_id="1"), "device_id"),
        (_one(device_id=-1), "device_id"),
        (_one(device_id=True), "device_id"),
        (_one(device_id=2**64), "device_id"),
        (_one(port={}), "port: unknown key; did you mean ports"),
        (_one(ports=["a"]), "ports"),
        (_one(ports={"1": 5}, device_id="x"), "device_id: must be a whole number"),
        (_one(ports={511: "a"}), "switches.0..ports.511: is 511, but must be 0 to 510"),
        (_one(ports={1: "a", 2: "a"}), "interface a is given twice"),
        (_one(rate="1G", rates={1: "1G"}), "both rate and rates"),
        (_one(rates={2: "1G"}), "no port 2"),
        (_one(ports_down=[2]), "no port 2"),
        (_one(cpu_port=1), "CPU port"),
        (_one(cpu_port=0), "cpu_port: is 0, but must be 1 to 510"),
        (_one(queues={"queue": 3}), "queues.queue: unknown key; did you mean queues"),
        (_one(queues={"queues": 9}), "queues.queues: is 9, but must be 1 to 8"),
        (_one(queues={"max_bytes": -1}), "max_bytes"),
        (_one(program=[]), "program: must be a single value"),
        (_one(name=[]), "name: must be a single value"),
        (_one(rate="fast"), "rate: must be a rate such as"),
        (_one(rate=None), "rate: must be a rate such as"),
        ({**_one(), "grpc": 9559}, "grpc"),
        ({**_one(), "grpc": "9559"}, "address"),
        ({**_one(), "qdisc": 1}, "qdisc: must be yes or no"),
        ({**_one(), "capturing": "no"}, "capturing: must be yes or no, not 'no'"),
        ({**_one(), "pcap": {}}, "pcap: must be a single value"),
        ({**_one(), "trace": ""}, "trace: must not be empty"),
        ({"switches": [{"device_id": 1}, {"device_id": 1}]}, "device id 1 is used twice"),
        ({"switches": [{"device_id": 1, "ports": {1: "a"}}, {"device_id": 2, "ports": {1: "a"}}]}, "given twice"),
    ],
)
def test_invalid_files_are_reported(document: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        load(document)
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        load_file(tmp_path / "none.yaml")
    bad = tmp_path / "bad.yaml"
    for text in (b"a: [1", b"switches: !!bool y", b"switches: 2001-13-45", b"[" * 5000, b"\xff\xfe\x00", b'{"a": 1'):
        bad.write_bytes(text)
        with pytest.raises(ConfigError, match=r"bad\.yaml[:,] ") as caught:
            load_file(bad)
        assert "\n" not in str(caught.value)


def test_a_key_that_is_there_twice_is_refused_in_json_too() -> None:
    with pytest.raises(ConfigError, match=r"switches\[0\]\.ports\.1: is given twice"):
        load_text('{"switches": [{"device_id": 1, "ports": {"1": "a", "1": "b"}}]}', "x.json")


def test_command_line_options_describe_one_switch() -> None:
    settings = settings_from_options(
        interfaces=["1@a", "2@b"], rates=["100M", "2=1G"], device_id=3, cpu_port=255, ports_down=[2]
    )
    (switch,) = settings.switches
    assert switch.ports == {1: "a", 2: "b"}
    assert switch.rates == {1: 100_000_000, 2: 1_000_000_000}
    assert (switch.device_id, switch.cpu_port, switch.ports_down) == (3, 255, {2})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"interfaces": ["1@a", "1@b"]}, "port 1 is given twice: a and b"),
        ({"interfaces": ["1@a", "2@a"]}, "interface a is given twice"),
        ({"interfaces": ["1@a"], "rates": ["2=1M"]}, "no port 2"),
        ({"interfaces": ["1@a"], "cpu_port": 1}, "CPU port"),
        ({"interfaces": ["1@a"], "cpu_port": 600}, "600"),
        ({"interfaces": ["1@a"], "device_id": -1}, "--device-id is -1"),
        ({"interfaces": ["1@a"], "grpc_address": "x"}, "address"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        settings_from_options(**options)


class TestPauses:
    GOOD: ClassVar = {"rate_bps": "100M", "xoff": 60000, "xon": 40000, "headroom": 30000}

    def load(self, pauses: object) -> PauseConfig:
        document = {"switches": [{"device_id": 1, "ports": {1: "eth0"}, "pauses": pauses}]}
        return load(document).switches[0].pauses[1]

    def test_flow_control_of_a_port_is_read(self) -> None:
        assert self.load({1: self.GOOD}) == PauseConfig(100_000_000, 60000, 40000, 30000)
        assert self.load({"1": {**self.GOOD, "priorities": [0, 3], "quanta": 9}}) == PauseConfig(
            100_000_000, 60000, 40000, 30000, frozenset((0, 3)), 9
        )

    @pytest.mark.parametrize(
        ("pauses", "words"),
        [
            ([], "pauses: must be a mapping"),
            ({2: GOOD}, "has no port 2"),
            ({1: {**GOOD, "xon": 70000}}, "xon must not be above xoff"),
            ({1: {**GOOD, "xof": 1}}, "xof: unknown key; did you mean xoff"),
            ({1: {"rate_bps": "1G", "xoff": 1}}, "xon is missing"),
            ({1: {**GOOD, "rate_bps": None}}, "rate_bps: must be a rate"),
            ({1: {**GOOD, "priorities": [8]}}, "priorities[0]: is 8, but must be 0 to 7"),
            ({1: {**GOOD, "priorities": 3}}, "priorities: must be a list"),
            ({1: {**GOOD, "quanta": 0}}, "quanta: is 0, but must be 1 to 65535"),
        ],
    )
    def test_invalid_flow_control_is_reported(self, pauses: object, words: str) -> None:
        with pytest.raises(ConfigError, match=re.escape(words)):
            self.load(pauses)


MINIMAL = {"switches": [{"device_id": 1, "ports": {1: "a"}}]}


def test_wires_are_read(tmp_path: Path) -> None:
    given = {"joined": [["a", "b"]], "rings": {"c": [5, 6, 7, 1]}, "counters": "wires"}
    found = load({**MINIMAL, "wires": given}, str(tmp_path / "x.yaml")).wires
    assert found == Wires((("a", "b"),), {"c": RingEnd(5, 6, 7, 1)}, tmp_path / "wires")


@pytest.mark.parametrize(
    "given",
    [
        [],
        {"other": 1},
        {"joined": "ab"},
        {"joined": [["a"]]},
        {"rings": []},
        {"rings": {"c": [1, 2, 3]}},
        {"rings": {"c": [1, 2, 3, 2]}},
        {"rings": {"c": ["1", 2, 3, 0]}},
        {"rings": {"c": 5}},
        {"counters": []},
    ],
)
def test_invalid_wires_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="wires"):
        load({**MINIMAL, "wires": given})
