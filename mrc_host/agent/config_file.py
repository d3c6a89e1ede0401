"""The agent's configuration file: a NicConfig as JSON.

The builder of the fabric writes it with :func:`dump_config`; the agent reads it with :func:`load_config`. The format is
that of :mod:`mrc_host.verbs.remote.codec`, except that two integers are written as addresses: `block` as an IPv6 prefix
("fc00::/32") and the `base` of a template as an IPv6 address.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Address
from pathlib import Path
from typing import Any

from mrc_common import named_files, strict_json
from mrc_host.config import NicConfig
from mrc_host.verbs.remote.codec import CodecError, from_json, to_json

_MAX_BYTES = 1 << 28  # every destination has all its paths in it


def dump_config(config: NicConfig) -> str:
    """JSON text of a configuration; :func:`parse_config` returns an equal value."""
    data = to_json(config)
    data["block"] = f"{IPv6Address(config.block << 96)}/32"
    for destination in data["destinations"]:
        destination["template"]["base"] = str(IPv6Address(destination["template"]["base"]))
    return strict_json.dumps(data, indent=1) + "\n"


def load_config(path: str | Path) -> NicConfig:
    """Read a configuration file; raises a CodecError that names the file and the place in it."""
    try:
        text = named_files.read_text(path, _MAX_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        raise CodecError(f"Cannot read the configuration {path}: {error}.") from None
    try:
        return parse_config(text)
    except CodecError as error:
        raise CodecError(f"{path}: {error}") from None


def parse_config(text: str) -> NicConfig:
    """The configuration that JSON `text` describes; raises CodecError."""
    try:
        data = strict_json.loads(text)
    except ValueError as error:
        raise CodecError(f"Not JSON: {error}.") from None
    _numbers(data)
    config = from_json(NicConfig, data)
    _check(config)
    return config


def _numbers(data: Any) -> None:
    """Replace the addresses that stand for integers; anything malformed is left for the decoder to refuse."""
    if not isinstance(data, dict):
        return
    block = data.get("block")
    if isinstance(block, str) and ":" in block:
        address, _, length = block.partition("/")
        value = _ipv6(address, "block")
        if length != "32" or value % (1 << 96):
            raise CodecError(f"At block: {block!r} is not a 32-bit prefix, such as 'fc00::/32'.")
        data["block"] = value >> 96
    destinations = data.get("destinations")
    for i, destination in enumerate(destinations if isinstance(destinations, list) else ()):
        template = destination.get("template") if isinstance(destination, dict) else None
        if isinstance(template, dict) and isinstance(template.get("base"), str) and ":" in template["base"]:
            template["base"] = _ipv6(template["base"], f"destinations[{i}].template.base")


def _ipv6(text: str, where: str) -> int:
    try:
        return int(IPv6Address(text))
    except AddressValueError:
        raise CodecError(f"At {where}: {text!r} is not an IPv6 address.") from None


def _check(config: NicConfig) -> None:
    """Check what the types alone do not ensure."""
    if not config.ports:
        raise CodecError("At ports: a NIC needs at least one port.")
    _length(config.address, 16, "address")
    for i, port in enumerate(config.ports):
        where = f"ports[{i}]"
        _length(port.mac, 6, f"{where}.mac")
        _length(port.gateway_mac, 6, f"{where}.gateway_mac")
        if port.plane != i:
            raise CodecError(f"At {where}.plane: port {i} belongs to plane {i}, not {port.plane}.")
        if not 0 < port.usid < 1 << 16:
            raise CodecError(f"At {where}.usid: a uSID must be from 1 to 65535, not {port.usid}.")
        if port.rate_bps < 0:
            raise CodecError(f"At {where}.rate_bps: the rate must be in b/s, 0 for unlimited, not {port.rate_bps}.")
    for i, destination in enumerate(config.destinations):
        _length(destination.address, 16, f"destinations[{i}].address")
        if not destination.evs:
            raise CodecError(f"At destinations[{i}].evs: {destination.name} has no entropy values, so no paths.")
    if len({destination.address for destination in config.destinations}) != len(config.destinations):
        raise CodecError("At destinations: two have the same address.")
    if not 1280 <= config.mtu <= 65535:
        raise CodecError(f"At mtu: the MTU must be from 1280 to 65535 bytes, not {config.mtu}.")


def _length(value: bytes, length: int, where: str) -> None:
    if len(value) != length:
        raise CodecError(f"At {where}: expected {'a MAC' if length == 6 else 'an IPv6'} address.")
