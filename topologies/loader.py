"""A fabric file: the numbers of :func:`topologies.clos.multi_plane_clos` as a small YAML mapping, and back.

    name: demo          # names the run directory and, hashed, the interfaces
    planes: 2
    t0: 2               # per plane
    t1: 4               # per plane; 0 with a single T0
    hosts: 4
    rate: 100M          # b/s of every link and direction (k, M, G)
    uplink_rate: 40M    # of T0-T1 links, where it differs
    mtu: 4500
    usid_block: fc00::/32
    address_prefix: fd00:6d:7263::/48
    protocol:
      udp_port: 4791
      ev_order: low_in_source_port
      hop_limit: 64
      dscp: {control: 46}
    queues: {trimming: yes, trim: 100, ecn_low: 20, ecn_high: 80}    # fields of topologies.queues.QueueProfile

Only the first five are needed. Whatever is wrong is refused with one sentence that names the file, the key and what
would be right; nothing is guessed.
"""

from __future__ import annotations

import dataclasses
import stat
from collections.abc import Hashable, Iterable, Mapping
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any

import yaml

from mrc_common import units, yaml_limits
from mrc_common.suggestions import did_you_mean
from mrc_host.config import Dscp, EvOrder, ProtocolSettings
from topologies.clos import DEFAULT_RATE_BPS, multi_plane_clos
from topologies.errors import FabricError
from topologies.fabric import DEFAULT_ADDRESS_PREFIX, DEFAULT_MTU, DEFAULT_USID_BLOCK, Fabric, LinkKind
from topologies.queues import QueueProfile

MAX_FILE_BYTES = 1 << 20
_MOST_PIECES = 1000
_NUMBER_BITS = 64
_LINE = 80

_REQUIRED = ("name", "planes", "t0", "t1", "hosts")
_OPTIONAL = ("rate", "uplink_rate", "mtu", "usid_block", "address_prefix", "protocol", "queues")
DEFAULT_BLOCK = str(IPv6Network((DEFAULT_USID_BLOCK << 96, 32)))
DEFAULT_PREFIX = str(IPv6Network((DEFAULT_ADDRESS_PREFIX << 80, 48)))
_PROTOCOL = ("udp_port", "ev_order", "hop_limit", "dscp")


def load_file(path: Path | str) -> Fabric:
    """Read a fabric file. Raises :class:`FabricError` with one sentence for anything wrong with it."""
    path = Path(path)
    try:
        about = path.stat()
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):  # it may never end, or never begin
            raise FabricError(f"{path}: is a pipe or device: a fabric file is a file")
        if about.st_size > MAX_FILE_BYTES:
            raise FabricError(f"{path}: a fabric file is at most {MAX_FILE_BYTES} bytes long")
        text = path.read_text("utf-8")
    except OSError as error:
        raise FabricError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FabricError(f"{path}: is not a text file in UTF-8") from None
    return load_text(text, source=str(path))


def load_text(text: str, *, source: str = "fabric") -> Fabric:
    """Build the fabric that YAML text describes; `source` begins every error message."""
    try:
        return _fabric(_document(text))
    except yaml.YAMLError as error:
        raise FabricError(f"{source}: {_yaml_problem(error)}") from None
    except RecursionError:
        raise FabricError(f"{source}: is nested too deeply for a fabric file") from None
    except FabricError as error:
        raise FabricError(f"{source}: {error}") from None


def dump_text(fabric: Fabric) -> str:
    """Write a fabric as YAML; :func:`load_text` gives an equal fabric back.

    Raises :class:`FabricError` where links of one kind differ in rate, which a fabric file cannot say.
    """
    rates = {
        kind: sorted({link.rate_bps for link in fabric.links if link.kind is kind})
        for kind in (LinkKind.NIC_T0, LinkKind.T0_T1)
    }
    for kind, found in rates.items():
        if len(found) > 1:
            raise FabricError(f"a fabric file has one rate for all {kind.value} links, but there are {found}")
    rate = rates[LinkKind.NIC_T0][0]
    document: dict[str, Any] = {
        "name": fabric.name,
        "planes": fabric.planes,
        "t0": fabric.t0_count,
        "t1": fabric.t1_count,
        "hosts": len(fabric.nics),
        "rate": rate,
    }
    if rates[LinkKind.T0_T1] not in ([], [rate]):
        document["uplink_rate"] = rates[LinkKind.T0_T1][0]
    document["mtu"] = fabric.mtu
    document["usid_block"] = str(IPv6Network((fabric.usid_block << 96, 32)))
    document["address_prefix"] = str(IPv6Network((fabric.address_prefix << 80, 48)))
    settings = fabric.settings
    document["protocol"] = {
        "udp_port": settings.udp_port,
        "ev_order": settings.ev_order.value,
        "hop_limit": settings.hop_limit,
        "dscp": dataclasses.asdict(settings.dscp),
    }
    document["queues"] = dataclasses.asdict(fabric.queues)
    return yaml.safe_dump(document, sort_keys=False)


class _Loader(yaml.SafeLoader):
    """YAML as PyYAML reads it, except that a key given twice is an error instead of the last one winning."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.MarkedYAMLError(problem="a key must be a word", problem_mark=key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key!r} is given twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _document(text: str) -> object:
    """What the text says. Raises yaml.YAMLError, RecursionError or FabricError."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if yaml_limits.is_larger_than(node, _MOST_PIECES):
            raise FabricError(f"has more than {_MOST_PIECES} values, aliases written out")
        document: object = None if node is None else loader.construct_document(node)
    except (yaml.YAMLError, RecursionError, FabricError):
        raise
    except yaml_limits.CONSTRUCTION_ERRORS:
        raise FabricError("holds a value that YAML does not know") from None
    finally:
        loader.dispose()
    return document


def _shown(value: object) -> str:
    """A value in an error message, which is to be one line."""
    if isinstance(value, int) and abs(value) >> _NUMBER_BITS:
        return f"a number of more than {_NUMBER_BITS} bits"
    text = repr(value)
    return text if len(text) <= _LINE else f"{text[:_LINE]}..."


def _yaml_problem(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "is not valid YAML"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else str(problem)


def _fabric(document: object) -> Fabric:
    values = _mapping("a fabric file", document, _REQUIRED + _OPTIONAL)
    for key in _REQUIRED:
        if key not in values:
            raise FabricError(f"{key} is missing; {', '.join(_REQUIRED)} are needed")
    name = values["name"]
    if not isinstance(name, str):
        raise FabricError(f"name must be a word, not {_shown(name)}")
    return multi_plane_clos(
        name,
        planes=_integer("planes", values["planes"]),
        t0=_integer("t0", values["t0"]),
        t1=_integer("t1", values["t1"]),
        hosts=_integer("hosts", values["hosts"]),
        rate_bps=parse_rate("rate", values.get("rate", DEFAULT_RATE_BPS)),
        uplink_rate_bps=parse_rate("uplink_rate", values["uplink_rate"]) if "uplink_rate" in values else None,
        mtu=_integer("mtu", values.get("mtu", DEFAULT_MTU)),
        settings=_protocol(values.get("protocol", {})),
        queues=_queues(values.get("queues", {})),
        usid_block=_prefix("usid_block", values.get("usid_block", DEFAULT_BLOCK), 32),
        address_prefix=_prefix("address_prefix", values.get("address_prefix", DEFAULT_PREFIX), 48),
    )


def _mapping(what: str, value: object, known: Iterable[str]) -> Mapping[str, object]:
    known = tuple(known)
    if not isinstance(value, dict):
        raise FabricError(f"{what} must be a mapping with keys such as {known[0]!r}, not {_kind(value)}")
    for key in value:
        if key not in known:
            hint = did_you_mean(str(key), known, most=1, cutoff=0.6) or f"known keys are {', '.join(known)}"
            raise FabricError(f"unknown key {_shown(key)} in {what}: {hint}")
    return value


def _kind(value: object) -> str:
    names = {type(None): "nothing", str: "a word", list: "a list", dict: "a mapping", bool: "yes or no"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)


def _integer(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >> _NUMBER_BITS:
        raise FabricError(f"{key} must be a whole number, not {_shown(value)}")
    return value


def parse_rate(key: str, value: object) -> int:
    """A rate in b/s from a number, or from text such as ``40M`` or ``2.5G``; FabricError names `key` otherwise."""
    if isinstance(value, int) and not isinstance(value, bool) and not abs(value) >> _NUMBER_BITS:
        return value
    try:
        return int(units.RATE.word(value if isinstance(value, str) else "", low=0))
    except ValueError:
        raise FabricError(f"{key} must be a rate such as 40M or 2.5G (b/s), not {_shown(value)}") from None


def _prefix(key: str, value: object, bits: int) -> int:
    try:
        network = IPv6Network(value if isinstance(value, str) else "")
    except ValueError:
        network = None
    if network is None or network.prefixlen != bits:
        raise FabricError(f"{key} must be an IPv6 prefix of length {bits} in quotes, not {_shown(value)}")
    return int(network.network_address) >> (128 - bits)


def _protocol(value: object) -> ProtocolSettings:
    values = _mapping("protocol", value, _PROTOCOL)
    default = ProtocolSettings()
    return ProtocolSettings(
        udp_port=_bounded("udp_port", values.get("udp_port", default.udp_port), 1, 65535),
        ev_order=_ev_order(values.get("ev_order", default.ev_order.value)),
        hop_limit=_bounded("hop_limit", values.get("hop_limit", default.hop_limit), 1, 255),
        dscp=_dscp(values.get("dscp", {})),
    )


def _queues(value: object) -> QueueProfile:
    known = dataclasses.asdict(QueueProfile())
    given = _mapping("queues", value, known)
    for key, number in given.items():
        if isinstance(known[key], bool):
            if not isinstance(number, bool):
                raise FabricError(f"queues: {key} must be yes or no, not {_shown(number)}")
        else:
            _integer(f"queues: {key}", number)
    return QueueProfile(**{**known, **given})


def _bounded(key: str, value: object, low: int, high: int) -> int:
    number = _integer(key, value)
    if not low <= number <= high:
        raise FabricError(f"{key} is {number}, but must be between {low} and {high}")
    return number


def _ev_order(value: object) -> EvOrder:
    try:
        return EvOrder(value)
    except ValueError:
        choices = " or ".join(order.value for order in EvOrder)
        raise FabricError(f"ev_order must be {choices}, not {_shown(value)}") from None


def _dscp(value: object) -> Dscp:
    roles = dataclasses.asdict(Dscp())
    given = _mapping("dscp", value, roles)
    roles.update({role: _bounded(f"dscp {role}", number, 0, 63) for role, number in given.items()})
    if len(set(roles.values())) != len(roles):
        raise FabricError(f"dscp values must all differ, but are {roles}")
    return Dscp(**roles)
