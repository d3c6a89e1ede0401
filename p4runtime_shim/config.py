"""Settings of a switch process as frozen values, read from a file or from the command line.

A file lists the switches of a process (YAML, or JSON, which is YAML too):

    grpc: unix:/run/mrc/demo/switches.sock     # address of the P4Runtime server, or host:port
    token_file: token                          # optional, required off loopback: clients must know it
    tls_cert: cert.pem                         # the same, with tls_key
    pcap: captures                             # optional: directory for a pcap file per port and direction
    capturing: true                            # optional: false leaves the start to the management service
    trace: trace.txt                           # optional: file for a trace of every packet; "-" is standard error
    qdisc: false                               # optional: true sends through the interfaces' tc disciplines (netem)
    wires:                                     # optional: links that pass the kernel by (port_driver.Wires)
      joined: [[t0-0p0-eth3, t1-0p0-eth1]]     # both ends in this process
      rings: {t0-0p0-eth1: [5, 6, 7, 0]}       # inherited descriptors (mrc_common.frame_rings.RingEnd)
      counters: wires                          # file that counts their frames
    switches:
      - name: t0-0@p0
        device_id: 1
        ports: {1: t0-0p0-eth1, 2: t0-0p0-eth2}
        rates: {1: 100M, 2: 100M}              # in b/s; a single value is for all ports; 0 = no limit
        cpu_port: 510                          # optional: enables packet-in and packet-out
        program: p4src/build/fabric.json       # optional: BMv2 JSON to start with; P4Runtime may replace it
        queues: {queues: 8, max_packets: 256}  # optional: fields of traffic_manager.QueueConfig
        packet_in_rate: 5000                   # optional: packets per second to controllers; 0 = no limit
        pauses: {1: {rate_bps: 100000000, xoff: 60000, xon: 40000, headroom: 30000}}  # optional: priority flow control

Every user error is found before anything is opened, and raises `ConfigError` with a one-sentence message.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from mrc_common import named_files, units, yaml_limits
from mrc_common.frame_rings import FrameRingError, RingEnd
from mrc_common.grpc_endpoint import EndpointSettings
from p4runtime_shim.port_driver import Wires
from p4runtime_shim.traffic_manager import PauseConfig, QueueConfig

BMV2_ADDRESS = "127.0.0.1:9559"  # P4Runtime's port (IANA); BMv2 listens on it on all addresses
MAX_PORT = 510  # 9 bits; 511 is v1model's drop port
MAX_DEVICE_ID = 2**64 - 1  # uint64, P4Runtime spec section 5
MAX_INTERFACE_NAME = 15  # IFNAMSIZ - 1

_LISTEN = ("token_file", "tls_cert", "tls_key")


class ConfigError(Exception):
    """An invalid setting; the message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class SwitchSettings:
    """One switch."""

    device_id: int = 0  # of P4Runtime
    name: str = ""  # in messages; the device id if empty
    ports: Mapping[int, str] = field(default_factory=dict)  # interface by port number
    rates: Mapping[int, int] = field(default_factory=dict)  # b/s by port number; absent or 0: no limit
    ports_down: frozenset[int] = frozenset()  # held down at first
    cpu_port: int | None = None  # for packet-in and packet-out; None: neither
    packet_in_rate: int | None = None  # packets per second to controllers; None: default, 0: no limit
    program: Path | None = None  # BMv2 JSON that it begins with; None: one is pushed
    seed: int = 0  # of the program's random numbers
    queues: QueueConfig = field(default_factory=QueueConfig)  # limits of the queues
    pauses: Mapping[int, PauseConfig] = field(default_factory=dict)  # priority flow control by port number

    @property
    def label(self) -> str:
        """The name, or the device id if it has none."""
        return self.name or f"device {self.device_id}"


def default_address(device_id: int, environment: Mapping[str, str] = os.environ) -> str:
    """A UNIX socket for the user who starts the switch: in /run for root, else in $XDG_RUNTIME_DIR."""
    folder = "/run" if os.geteuid() == 0 else environment.get("XDG_RUNTIME_DIR", "")
    if not folder:
        raise ConfigError("there is no directory for a socket (XDG_RUNTIME_DIR): give --grpc-server-addr unix:PATH")
    return f"unix:{folder}/p4runtime_shim-{device_id}.sock"


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """All switches of one process behind one gRPC address."""

    switches: tuple[SwitchSettings, ...]
    grpc_address: str = ""  # usually `default_address`
    listen: EndpointSettings = field(default_factory=EndpointSettings)
    qdisc: bool = False  # send through the interfaces' queueing disciplines (tc), not past them
    bmv2_send_buffer: bool = False  # as small as BMv2's: then frames wait in the switch's queues
    wires: Wires | None = None  # links that pass the kernel by
    pcap: Path | None = None  # directory for captures
    capturing: bool = True  # from the start, if `pcap` is given
    trace: str | None = None  # file for a trace, "-" = standard error


def parse_rate(given: object, what: str = "rate") -> int:
    """A rate in b/s from a number or text like `100M`, `2.5Gbit/s`, `9600bps`; factors are decimal."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    text = format(given, "f") if isinstance(given, float) else str(given)
    try:
        if not is_number and not isinstance(given, str):
            raise ValueError(given)
        return int(units.RATE.word(text, low=0))
    except ValueError:
        raise ConfigError(f"{what} is {given!r}; give bits per second, like 100M or 2.5G") from None


def parse_interface(text: str) -> tuple[int, str]:
    """`(port, interface)` from `PORT@INTERFACE`, as in simple_switch_grpc."""
    number, sign, interface = text.partition("@")
    if not sign:
        raise ConfigError(f"interface {text!r} has no '@'; write PORT@INTERFACE, like 1@eth0")
    return _port_number(number, f"interface {text!r}"), _interface_name(interface, f"interface {text!r}")


def load_file(path: Path) -> ProcessSettings:
    """Settings from a YAML or JSON file; relative program paths are relative to the file."""
    try:
        document = _parse(named_files.read_text(path))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply, or contains itself") from None
    except yaml_limits.CONSTRUCTION_ERRORS as error:
        detail = " ".join(str(error).split())
        raise ConfigError(f"{path} is not valid YAML or JSON: {detail}") from None
    return from_document(document, where=str(path), directory=path.parent)


def _parse(text: str) -> object:
    try:
        return json.loads(text)  # twenty times as fast, and the builder of a fabric writes JSON
    except ValueError:
        return yaml.safe_load(text)


def from_document(document: object, *, where: str, directory: Path = Path()) -> ProcessSettings:
    """Settings from the parsed file."""
    top = _mapping(document, where, {"grpc", *_LISTEN, "qdisc", "wires", "pcap", "capturing", "trace", "switches"})
    address = top.get("grpc")
    if address is not None and not isinstance(address, str):
        raise ConfigError(f"{where}: grpc is {address!r}; give an address like 127.0.0.1:9559 or unix:/path")
    listed = top.get("switches")
    if not isinstance(listed, list) or not listed:
        raise ConfigError(f"{where} lists no switches; give at least one under 'switches:'")
    switches = tuple(_switch(item, f"{where}, switch {n}", directory) for n, item in enumerate(listed, 1))
    qdisc = top.get("qdisc", False)
    capturing = top.get("capturing", True)
    for name, value in (("qdisc", qdisc), ("capturing", capturing)):
        if not isinstance(value, bool):
            raise ConfigError(f"{where}: {name} is {value!r}; give true or false")
    given = [_path(top.get(name), f"{where}: {name}") for name in _LISTEN]
    files = [None if file is None else directory / file for file in given]
    pcap, trace = (_path(top.get(name), f"{where}: {name}") for name in ("pcap", "trace"))
    return check(
        ProcessSettings(
            switches,
            address or default_address(switches[0].device_id),
            EndpointSettings(token_file=files[0], tls_cert=files[1], tls_key=files[2]),
            qdisc,
            wires=_wires(top.get("wires"), f"{where}: wires", directory),
            pcap=None if pcap is None else directory / pcap,
            capturing=capturing,
            trace=trace if trace in (None, "-") else str(directory / trace),
        )
    )


def _path(value: object, what: str) -> str | None:
    if value is not None and (not isinstance(value, str) or not value or "\0" in value):
        raise ConfigError(f"{what} is {value!r}; give a path")
    return value


def check(settings: ProcessSettings) -> ProcessSettings:
    """The settings; raises ConfigError if two switches collide or a named port does not exist."""
    ids: dict[int, str] = {}
    interfaces: dict[str, str] = {}
    for switch in settings.switches:
        if switch.device_id in ids:
            raise ConfigError(f"device id {switch.device_id} is used twice; each switch needs its own")
        ids[switch.device_id] = switch.label
        for port, interface in switch.ports.items():
            if interface in interfaces:
                raise ConfigError(f"interface {interface} is given twice; it can be only one port")
            interfaces[interface] = switch.label
            if port == switch.cpu_port:
                raise ConfigError(f"{switch.label}: port {port} is the CPU port and cannot have an interface")
        for port in (*switch.rates, *switch.ports_down, *switch.pauses):
            if port not in switch.ports:
                raise ConfigError(f"{switch.label} has no port {port}; give it an interface first")
    check_address(settings.grpc_address)
    return settings


def check_address(address: str) -> None:
    """ConfigError unless `address` is host:port or unix:PATH."""
    if address.startswith(("unix:", "unix-abstract:")):
        if not address.partition(":")[2]:
            raise ConfigError(f"gRPC address {address!r} has no path; write unix:/path/to/socket")
        return
    host, sign, port = address.rpartition(":")
    if not sign or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"gRPC address {address!r} is not HOST:PORT or unix:PATH")


def _wires(given: object, where: str, directory: Path) -> Wires | None:
    if given is None:
        return None
    values = _mapping(given, where, {"joined", "rings", "counters"})
    joined, rings, counters = values.get("joined", []), values.get("rings", {}), values.get("counters")
    if not isinstance(joined, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in joined):
        raise ConfigError(f"{where}: joined is {joined!r}; give a list of pairs of interfaces")
    if not isinstance(rings, Mapping):
        raise ConfigError(f"{where}: rings is {rings!r}; write {{eth0: [5, 6, 7, 0]}}")
    if counters is not None and not isinstance(counters, str):
        raise ConfigError(f"{where}: counters is {counters!r}; give the path of a file")
    near_and_far = [tuple(_interface_name(name, where) for name in pair) for pair in joined]
    try:
        ends = {_interface_name(name, where): RingEnd.of(numbers) for name, numbers in rings.items()}
    except (FrameRingError, TypeError) as error:
        raise ConfigError(f"{where}: rings: {error}") from None
    pairs = tuple((near, far) for near, far in near_and_far)
    return Wires(pairs, ends, None if counters is None else directory / counters)


def _switch(item: object, where: str, directory: Path) -> SwitchSettings:
    known = {item.name for item in fields(SwitchSettings)} | {"rate"}
    given = _mapping(item, where, known)
    name = given.get("name", "")
    if not isinstance(name, str):
        raise ConfigError(f"{where}: name is {name!r}; give text")
    where = f"{where} ({name})" if name else where
    ports = _ports(given.get("ports", {}), where)
    program = given.get("program")
    if program is not None and not isinstance(program, str):
        raise ConfigError(f"{where}: program is {program!r}; give the path of a BMv2 JSON file")
    cpu_port = given.get("cpu_port")
    packet_rate = given.get("packet_in_rate")
    return SwitchSettings(
        device_id=_integer(given.get("device_id"), f"{where}: device_id", 0, MAX_DEVICE_ID),
        name=name,
        ports=ports,
        rates=_rates(given, ports, where),
        ports_down=frozenset(_port_number(port, f"{where}: ports_down") for port in given.get("ports_down") or ()),
        cpu_port=None if cpu_port is None else _cpu_port(cpu_port, f"{where}: cpu_port"),
        packet_in_rate=None if packet_rate is None else _packet_rate(packet_rate, f"{where}: packet_in_rate"),
        program=None if program is None else directory / program,
        seed=_integer(given.get("seed", 0), f"{where}: seed", 0, 2**64 - 1),
        queues=_queues(given.get("queues", {}), where),
        pauses=_pauses(given.get("pauses", {}), f"{where}: pauses"),
    )


def _ports(given: object, where: str) -> dict[int, str]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: ports is {given!r}; write {{1: eth0, 2: eth1}}")
    ports: dict[int, str] = {}
    for number, interface in given.items():
        port = _port_number(number, f"{where}: ports")
        if port in ports:  # 1 and "1" are different keys in YAML but the same port here
            raise ConfigError(f"{where}: port {port} is given twice")
        ports[port] = _interface_name(interface, f"{where}: port {port}")
    return ports


def _rates(given: Mapping[str, Any], ports: Mapping[int, str], where: str) -> dict[int, int]:
    rates = given.get("rates", given.get("rate", 0))
    if "rates" in given and "rate" in given:
        raise ConfigError(f"{where}: both rate and rates are given; keep one")
    if not isinstance(rates, Mapping):
        rate = parse_rate(rates, f"{where}: rate")
        return dict.fromkeys(ports, rate) if rate else {}
    return {_port_number(port, f"{where}: rates"): parse_rate(rate, f"{where}: rate") for port, rate in rates.items()}


def _queues(given: object, where: str) -> QueueConfig:
    values = _mapping(given, f"{where}: queues", {item.name for item in fields(QueueConfig)})
    for key, value in values.items():
        _integer(value, f"{where}: queues: {key}", 0, 2**31 - 1)
    config = QueueConfig(**values)
    if not 1 <= config.queues <= 8:
        raise ConfigError(f"{where}: queues: a port has 1 to 8 queues, not {config.queues}")
    return config


def _pauses(given: object, where: str) -> dict[int, PauseConfig]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where} is {given!r}; write {{1: {{rate_bps: ..., xoff: ..., xon: ..., headroom: ...}}}}")
    return {_port_number(port, where): _pause(values, f"{where}: port {port}") for port, values in given.items()}


def _pause(given: object, where: str) -> PauseConfig:
    values = dict(_mapping(given, where, {item.name for item in fields(PauseConfig)}))
    priorities = values.pop("priorities", [0])
    if not isinstance(priorities, list):
        raise ConfigError(f"{where}: priorities is {priorities!r}; give a list of queue numbers, like [0]")
    numbers = {
        name: _integer(values.get(name), f"{where}: {name}", 1, 2**31 - 1) for name in ("xoff", "xon", "headroom")
    }
    config = PauseConfig(
        rate_bps=parse_rate(values.get("rate_bps"), f"{where}: rate_bps"),
        **numbers,
        priorities=frozenset(_integer(number, f"{where}: priorities", 0, 7) for number in priorities),
        quanta=_integer(values.get("quanta", 65535), f"{where}: quanta", 1, 65535),
    )
    if config.xon > config.xoff or config.rate_bps < 1 or not config.priorities:
        raise ConfigError(f"{where}: xon must not be above xoff, and there must be a rate and a priority")
    return config


def _mapping(value: object, where: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} is {type(value).__name__}, not a mapping of settings")
    for key in value:
        if key not in known:
            raise ConfigError(f"{where}: unknown setting {key!r}; choose from {', '.join(sorted(known))}")
    return value


def _integer(value: object, what: str, low: int, high: int) -> int:
    if value is None:
        raise ConfigError(f"{what} is missing")
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"{what} is {value!r}; give a whole number from {low} to {high}")
    return value


def _port_number(value: object, what: str) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.isdigit() or int(text) > MAX_PORT:
        raise ConfigError(f"{what}: port {value!r} is not a number from 0 to {MAX_PORT}")
    return int(text)


def _cpu_port(value: object, what: str) -> int:
    port = _port_number(value, what)
    if port == 0:  # as simple_switch_grpc: 0 means "no CPU port" there
        raise ConfigError(f"{what}: the CPU port cannot be 0")
    return port


def _packet_rate(value: object, what: str) -> int:
    return _integer(value, what, 0, 2**32 - 1)


def _interface_name(value: object, what: str) -> str:
    if not isinstance(value, str) or not value or len(value) > MAX_INTERFACE_NAME or "/" in value or " " in value:
        raise ConfigError(f"{what}: {value!r} is not the name of an interface (1 to {MAX_INTERFACE_NAME} characters)")
    return value


def settings_from_options(
    *,
    interfaces: Sequence[str],
    rates: Sequence[str] = (),
    device_id: int = 0,
    name: str = "",
    cpu_port: int | None = None,
    ports_down: Sequence[int] = (),
    program: Path | None = None,
    seed: int = 0,
    queues: QueueConfig | None = None,
    grpc_address: str = "",
    listen: EndpointSettings | None = None,
    qdisc: bool = False,
    packet_in_rate: int | None = None,
    pcap: Path | None = None,
    trace: str | None = None,
) -> ProcessSettings:
    """Settings of a process with one switch, from command-line options (`1@eth0`; `1=100M`, or `100M` for all)."""
    ports: dict[int, str] = {}
    for text in interfaces:
        port, interface = parse_interface(text)
        if port in ports:
            raise ConfigError(f"port {port} is given twice: {ports[port]} and {interface}")
        ports[port] = interface
    limits: dict[int, int] = {}
    for text in rates:
        number, sign, rate = text.partition("=")
        if sign:
            limits[_port_number(number, f"rate {text!r}")] = parse_rate(rate)
        else:
            limits = dict.fromkeys(ports, parse_rate(text)) | limits
    switch = SwitchSettings(
        device_id=_integer(device_id, "device id", 0, MAX_DEVICE_ID),
        name=name,
        ports=ports,
        rates=limits,
        ports_down=frozenset(_port_number(port, "--ports-down") for port in ports_down),
        cpu_port=None if cpu_port is None else _cpu_port(cpu_port, "--cpu-port"),
        packet_in_rate=None if packet_in_rate is None else _packet_rate(packet_in_rate, "--packet-in-rate"),
        program=program,
        seed=_integer(seed, "seed", 0, 2**64 - 1),
        queues=queues if queues is not None else QueueConfig(),
    )
    address = grpc_address or default_address(switch.device_id)
    return check(ProcessSettings((switch,), address, listen or EndpointSettings(), qdisc, pcap=pcap, trace=trace))
