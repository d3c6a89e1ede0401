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

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from mrc_common.declared.document import Source, Value, parse, read_text
from mrc_common.declared.field_types import Boolean, FieldType, FileBeside, Integer, JsonSchema, Text, a_rate
from mrc_common.declared.overlay import without
from mrc_common.declared.sections import Instance, ListOf, PairOf, Section, SetOf, TableOf, key, keys_of, plain_fields
from mrc_common.frame_rings import FrameRingError, RingEnd
from mrc_common.grpc_endpoint import EndpointSettings
from p4runtime_shim.port_driver import Wires
from p4runtime_shim.traffic_manager import PauseConfig, QueueConfig

BMV2_ADDRESS = "127.0.0.1:9559"  # P4Runtime's port (IANA); BMv2 listens on it on all addresses
MAX_INTERFACE_NAME = 15  # IFNAMSIZ - 1
_MAX_FILE_BYTES = 64 << 20
_NUMBER = Integer(0, 2**31 - 1)
_SEED = Integer(0, 2**64 - 1)

_LISTEN = ("token_file", "tls_cert", "tls_key")
T = TypeVar("T")


class ConfigError(Exception):
    """An invalid setting; the message says which, and what to do."""


@dataclass(frozen=True)
class InterfaceName(Text):
    """The name of a network interface."""

    def check(self, found: Any, written: str = "") -> str:
        """A str."""
        name = super().check(found, written)
        if len(name) > MAX_INTERFACE_NAME or "/" in name or " " in name:
            raise ValueError(f"{name[:40]!r} is not the name of an interface (1 to {MAX_INTERFACE_NAME} characters)")
        return name


@dataclass(frozen=True)
class Address(Text):
    """An address for gRPC: host:port or unix:PATH."""

    def check(self, found: Any, written: str = "") -> str:
        """A str."""
        address = found if isinstance(found, str) else ""
        if address.startswith(("unix:", "unix-abstract:")):
            if not address.partition(":")[2]:
                raise ValueError(f"address {address!r} has no path; write unix:/path/to/socket")
            return address
        host, sign, port = address.rpartition(":")
        if not sign or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"address {address!r} is not HOST:PORT or unix:PATH")
        return address


@dataclass(frozen=True)
class RingNumbers(FieldType):
    """The numbers of a :class:`RingEnd`, in a list."""

    def read(self, value: Value) -> RingEnd:
        """The end."""
        numbers = ListOf(_NUMBER).read(value)
        try:
            return RingEnd.of(numbers)
        except FrameRingError as error:
            raise value.error(str(error)) from None

    def schema(self) -> JsonSchema:
        """An array."""
        return ListOf(_NUMBER).schema()


@dataclass(frozen=True)
class Pause(Instance):
    """Flow control of a port."""

    def read(self, value: Value) -> PauseConfig:
        """The settings, which make sense together."""
        found: PauseConfig = super().read(value)
        if found.xon > found.xoff:
            raise value.error("xon must not be above xoff")
        return found


_PORT = Integer(0, 510)  # 9 bits; 511 is v1model's drop port
_INTERFACE = InterfaceName()
_SIZE = Integer(1, 2**31 - 1)
_QUEUES = Instance(QueueConfig, dict.fromkeys(plain_fields(QueueConfig), _NUMBER) | {"queues": Integer(1, 8)})
_PAUSE = Pause(
    PauseConfig,
    {
        "rate_bps": a_rate(),
        "xoff": _SIZE,
        "xon": _SIZE,
        "headroom": _SIZE,
        "priorities": SetOf(Integer(0, 7), 1),
        "quanta": Integer(1, 65535),
    },
)
_WIRES = Instance(
    Wires,
    {
        "joined": ListOf(PairOf(_INTERFACE)),
        "rings": TableOf(RingNumbers(), _INTERFACE),
        "counters": FileBeside(),
    },
)


@dataclass(frozen=True, slots=True)
class SwitchSettings:
    """One switch."""

    device_id: int = key(Integer(0, 2**64 - 1), "of P4Runtime (its specification, section 5)", default=0)
    name: str = key(Text(), "in messages; the device id if empty", default="")
    ports: Mapping[int, str] = key(TableOf(_INTERFACE, _PORT), "interface by port number", default_factory=dict)
    rates: Mapping[int, int] = key(
        TableOf(a_rate(0), _PORT), "b/s by port number; absent or 0: no limit", default_factory=dict
    )
    ports_down: frozenset[int] = key(SetOf(_PORT), "held down at first", default=frozenset())
    cpu_port: int | None = key(Integer(1, 510), "for packet-in and packet-out; without it neither", default=None)
    packet_in_rate: int | None = key(
        Integer(0, 2**32 - 1), "packets per second to controllers; 0: no limit", default=None
    )
    program: Path | None = key(FileBeside(), "BMv2 JSON that it begins with; without it, one is pushed", default=None)
    seed: int = key(_SEED, "of the program's random numbers", default=0)
    queues: QueueConfig = key(_QUEUES, "limits of the queues", default=QueueConfig())
    pauses: Mapping[int, PauseConfig] = key(
        TableOf(_PAUSE, _PORT), "priority flow control by port number", default_factory=dict
    )

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


@dataclass(frozen=True)
class SwitchSection(Section):
    """A switch, with a rate of each port or one of all."""

    def read(self, value: Value) -> SwitchSettings:
        """The settings."""
        members = value.items()
        if "rate" in members and "rates" in members:
            raise members["rate"].error("both rate and rates are given; keep one")
        single = members.get("rate", members.get("rates"))
        if single is None or single.is_mapping:
            found: SwitchSettings = super().read(value)
            return found
        rate = a_rate(0).read(single)
        found = super().read(replace(value, node=without(value.node, "rate", "rates")))
        return replace(found, rates=dict.fromkeys(found.ports, rate) if rate else {})


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """All switches of one process behind one gRPC address."""

    switches: tuple[SwitchSettings, ...] = key(
        ListOf(SwitchSection(SwitchSettings, needed=("device_id",)), 1), "the switches of the process"
    )
    grpc_address: str = key(Address(), "usually `default_address`", name="grpc", default="")
    listen: EndpointSettings = field(default_factory=EndpointSettings)
    qdisc: bool = key(Boolean(), "send through the interfaces' queueing disciplines (tc), not past them", default=False)
    bmv2_send_buffer: bool = False  # as small as BMv2's: then frames wait in the switch's queues
    wires: Wires | None = key(_WIRES, "links that pass the kernel by", default=None)
    pcap: Path | None = key(FileBeside(), "directory for captures", default=None)
    capturing: bool = key(Boolean(), "from the start, if `pcap` is given", default=True)
    trace: str | None = key(Text(), 'file for a trace, "-" = standard error', default=None)


@dataclass(frozen=True)
class ProcessSection(Section):
    """A process of switches, with the files of its address beside the other keys."""

    def read(self, value: Value) -> ProcessSettings:
        """The settings, checked; relative paths are relative to the file."""
        members = value.items()
        token, cert, key_file = (FileBeside().read(members[name]) if name in members else None for name in _LISTEN)
        found: ProcessSettings = super().read(replace(value, node=without(value.node, *_LISTEN)))
        folder = Path(value.source.name).parent
        trace = found.trace if found.trace in (None, "-") else str(folder / found.trace)
        address = found.grpc_address or default_address(found.switches[0].device_id)
        return check(replace(found, listen=EndpointSettings(token, cert, key_file), trace=trace, grpc_address=address))


def load_file(path: Path) -> ProcessSettings:
    """Settings from a YAML or JSON file; relative paths are relative to the file."""
    return load_text(read_text(path, ConfigError, _MAX_FILE_BYTES), str(path))


def load_text(text: str, name: str) -> ProcessSettings:
    """Settings from the text of the file `name`."""
    document = parse(text, Source(name, ConfigError, max_bytes=_MAX_FILE_BYTES))
    found: ProcessSettings = ProcessSection(ProcessSettings).read(document)
    return found


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
    _said(Address().check, settings.grpc_address, "gRPC")
    return settings


def _said(use: Callable[[Any], T], given: Any, what: str) -> T:
    """What a type makes of something on the command line; ConfigError that begins with `what` it is."""
    try:
        return use(given)
    except (ValueError, ArithmeticError) as error:
        raise ConfigError(f"{what} {error}") from None


def parse_interface(text: str) -> tuple[int, str]:
    """`(port, interface)` from `PORT@INTERFACE`, as in simple_switch_grpc."""
    number, sign, interface = text.partition("@")
    if not sign:
        raise ConfigError(f"interface {text!r} has no '@'; write PORT@INTERFACE, like 1@eth0")
    about = f"interface {text!r}:"
    return _said(_PORT.parse, number, about), _said(_INTERFACE.parse, interface, about)


def settings_from_options(
    *,
    interfaces: Sequence[str],
    rates: Sequence[str] = (),
    ports_down: Sequence[int] = (),
    queues: QueueConfig | None = None,
    grpc_address: str = "",
    listen: EndpointSettings | None = None,
    qdisc: bool = False,
    pcap: Path | None = None,
    trace: str | None = None,
    **switch: Any,
) -> ProcessSettings:
    """Settings of a process with one switch, from command-line options (`1@eth0`; `1=100M`, or `100M` for all).

    `switch` are further fields of :class:`SwitchSettings`.
    """
    ports: dict[int, str] = {}
    for text in interfaces:
        port, interface = parse_interface(text)
        if port in ports:
            raise ConfigError(f"port {port} is given twice: {ports[port]} and {interface}")
        ports[port] = interface
    limits: dict[int, int] = {}
    for text in rates:
        number, sign, rate = text.rpartition("=")
        limit = _said(a_rate(0).parse, rate, f"rate {text!r}:")
        unlimited = [port for port in ports if port not in limits]
        chosen = [_said(_PORT.parse, number, f"rate {text!r}:")] if sign else unlimited
        limits |= dict.fromkeys(chosen, limit)
    known = keys_of(SwitchSettings)
    for name in ("device_id", "cpu_port", "packet_in_rate", "seed"):
        if switch.get(name) is not None:
            _said(known[name].scalar.check, switch[name], f"--{name.replace('_', '-')}")
    one = SwitchSettings(
        ports=ports, rates=limits, ports_down=frozenset(ports_down), queues=queues or QueueConfig(), **switch
    )
    address = grpc_address or default_address(one.device_id)
    return check(ProcessSettings((one,), address, listen or EndpointSettings(), qdisc, pcap=pcap, trace=trace))
