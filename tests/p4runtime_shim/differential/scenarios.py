"""Random tables and frames for each test program. A scenario draws all it does from one `random.Random`."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

from finsy import (
    Action,
    IndirectAction,
    Match,
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4CloneSessionEntry,
    P4DigestEntry,
    P4Member,
    P4MeterConfig,
    P4MeterEntry,
    P4MulticastGroupEntry,
    P4TableEntry,
)

from tests.p4runtime_shim.differential import frames as f
from tests.p4runtime_shim.differential.fabric_scenario import fabric
from tests.p4runtime_shim.differential.vectors import CPU_PORT, PORTS, Vector, modified, vector

Made = tuple[list[Any], Callable[[], bytes]]


def routes(rng: random.Random, table: str, actions: Callable[[], Any], **more: Any) -> list[Any]:
    """Prefixes of different lengths over the networks, some inside others."""
    entries: dict[str, Any] = {}
    for network in f.NETWORKS:
        for length in rng.sample((16, 24, 31, 32), rng.randrange(3)):
            prefix = (network | rng.randrange(4)) >> (32 - length) << (32 - length)
            shown = f"{'.'.join(str(byte) for byte in prefix.to_bytes(4, 'big'))}/{length}"
            entries[shown] = P4TableEntry(table, match=Match(dst=shown, **more), action=actions())
    return list(entries.values())


def default(table: str, action: Any) -> P4TableEntry:
    """What a table does when nothing matches."""
    return P4TableEntry(table, action=action, is_default_action=True)


def port(rng: random.Random) -> int:
    """A port that exists, mostly."""
    return rng.choice((*PORTS, *PORTS, 99))


def forward(rng: random.Random) -> Made:
    def action() -> Any:
        return rng.choice((Action("forward", port=port(rng), mac=rng.choice(f.HOSTS)), Action("discard")))

    return routes(rng, "route", action), lambda: f.over_ipv4(rng)


def tunnel(rng: random.Random) -> Made:
    def action() -> Any:
        return rng.choice((Action("forward", port=port(rng), mac=7), Action("enter", id=rng.randrange(20))))

    def label_action() -> Any:
        return rng.choice((Action("pass_on", port=port(rng)), Action("leave", port=port(rng))))

    labels = [
        P4TableEntry("labels", match=Match(id=number), action=label_action())
        for number in range(20)
        if rng.randrange(3)
    ]

    def frame() -> bytes:
        if rng.randrange(2):
            return f.over_ipv4(rng)
        label = struct.pack("!HH", rng.choice((0x0800, 0x0800, 1)), rng.randrange(20))
        return f.ethernet(rng, 0x1212) + label + f.ipv4(rng, f.body(rng))

    return [*routes(rng, "route", action), *labels], frame


def telemetry(rng: random.Random) -> Made:
    def action() -> Any:
        return Action("forward", port=port(rng))

    entries = routes(rng, "route", action, failure=rng.choice((0, 0, 0, 1, 3, 7)))
    if rng.randrange(4):
        entries.append(
            modified(
                "telemetry",
                default("self", Action("note", device=rng.getrandbits(32))),
            )
        )
    for number in PORTS:
        if rng.randrange(2):
            action_ = Action("mark_from", depth=rng.randrange(2))
            entries.append(P4TableEntry("marking", match=Match(port=number), action=action_))

    def frame() -> bytes:
        if rng.randrange(4) == 0:
            return f.over_ipv4(rng)
        count = rng.randrange(6)
        traces = b"".join(struct.pack("!II", rng.getrandbits(32), rng.randrange(9)) for _ in range(count))
        claimed = count if rng.randrange(6) else rng.randrange(8)
        options = struct.pack("!BBH", rng.choice((31, 31, 31, 30)), 4 + 8 * count, claimed) + traces
        return f.ethernet(rng, 0x0800) + f.ipv4(rng, f.body(rng), options=options)

    return entries, frame


def balance(rng: random.Random) -> Made:
    # One member a group: which of several is chosen differs (docs/switch.md); tests/p4src looks at the distribution.
    members = [P4ActionProfileMember("spread", member_id=n, action=Action("send", port=n)) for n in PORTS]
    groups = [P4ActionProfileGroup("spread", group_id=n, max_size=8, members=[P4Member(n, weight=1)]) for n in PORTS]

    def choose() -> Any:
        return Action("choose", base=rng.choice((0, 100)), count=rng.choice((1, 4, 7, 1000)))

    def refer() -> Any:
        number = rng.choice(PORTS)
        return rng.choice((IndirectAction(member_id=number), IndirectAction(group_id=number)))

    hops = [
        P4TableEntry("next_hops", match=Match(choice=base + n), action=Action("forward", mac=n + 1, port=port(rng)))
        for base in (0, 100)
        for n in range(7)
        if rng.randrange(5)
    ]
    entries = [*members, *groups, *routes(rng, "groups", choose), *routes(rng, "members", refer), *hops]
    return entries, lambda: f.over_ipv4(rng)


def firewall(rng: random.Random) -> Made:
    def action() -> Any:
        return Action("forward", port=port(rng))

    entries = routes(rng, "route", action)
    return entries, lambda: f.ethernet(rng, 0x0800) + f.ipv4(rng, f.tcp(rng, f.body(rng)), protocol=6)


def monitor(rng: random.Random) -> Made:
    def action() -> Any:
        return Action("forward", port=rng.choice(PORTS))

    entries = [
        *routes(rng, "route", action),
        modified(
            "monitor", P4TableEntry("self", action=Action("note", device=rng.getrandbits(7)), is_default_action=True)
        ),
    ]

    def frame() -> bytes:
        if rng.randrange(2):
            return f.over_ipv4(rng)
        hops = rng.randrange(5)
        data = b"".join(
            struct.pack("!BBII", rng.randrange(128) | (128 if n == hops - 1 else 0), rng.choice(PORTS), n, n + 1)
            for n in range(hops)
        )
        ports = bytes(rng.choice(PORTS) for _ in range(rng.choice((hops + 1, hops + 1, 4, 2))))
        return f.ethernet(rng, 0x0812) + bytes([hops]) + data + ports

    return entries, frame


def learning(rng: random.Random) -> Made:
    entries: list[Any] = [P4DigestEntry("learned_t", max_list_size=1, max_timeout_ns=0, ack_timeout_ns=0)]
    for group in (1, 2):
        chosen = rng.sample(PORTS, rng.randrange(1, 5))
        replicas = [(number, rng.randrange(1, 9)) for number in chosen]
        entries.append(P4MulticastGroupEntry(group, replicas=replicas))
    for host in f.HOSTS:
        if rng.randrange(2):
            entries.append(P4TableEntry("sources", match=Match(address=host), action=Action("NoAction")))
        if rng.randrange(2):
            mask = rng.choice((0xFFFFFFFFFFFF, 0xFFFFFFFFFFFE, 0xFFFF00000003))
            action = rng.choice((Action("forward", port=port(rng)), Action("flood", group=rng.choice((1, 2, 3)))))
            match = Match(address=(host & mask, mask))
            entries.append(P4TableEntry("destinations", match=match, action=action, priority=host & 7))
    return entries, lambda: f.ethernet(rng, 0x0800) + f.body(rng)


def packet_io(rng: random.Random) -> Made:
    entries: list[Any] = [P4CloneSessionEntry(7, replicas=[(CPU_PORT, 1)])]
    for priority in range(1, rng.randrange(2, 9)):
        low = rng.choice((0, 1, 2, 64))
        match = Match(
            port=rng.choice(((1, 511), (2, 510), (0, 0), (4, 4))),
            ethernet=1,
            ttl=(low, rng.choice((low, 64, 255))),
            ipv4=rng.choice((0, 1)),
        )
        shortened = {key: value for key, value in match.items() if value not in ((0, 0), (0, 255))}
        if rng.randrange(3) == 0:
            shortened.pop("ipv4")
        action = rng.choice(
            (
                Action("to_controller", reason=rng.randrange(8)),
                Action("copy_to_controller", port=rng.choice(PORTS)),
                Action("forward", port=rng.choice(PORTS)),
                Action("discard"),
            )
        )
        entries.append(P4TableEntry("decide", match=Match(shortened), action=action, priority=priority))
    return entries, lambda: f.over_ipv4(rng)


def policing(rng: random.Random) -> Made:
    # Meters start full and are never filled again: how long a vector takes must not matter.
    entries: list[Any] = []
    for index in range(3):
        small = rng.choice((20, 60, 200))
        config = P4MeterConfig(cir=0, cburst=small, pir=0, pburst=small + rng.choice((0, 100)))
        entries.append(modified("policing", P4MeterEntry("index_meter", index=index, config=config)))
    for host in f.HOSTS:
        if rng.randrange(4):
            action = Action("police", port=rng.choice(PORTS), index=rng.randrange(4))
            few = rng.randrange(1, 4)
            config = P4MeterConfig(cir=0, cburst=few, pir=0, pburst=few + rng.randrange(3))
            meter = None if rng.randrange(4) == 0 else config
            entries.append(P4TableEntry("flows", match=Match(address=host), action=action, meter_config=meter))
    return entries, lambda: f.ethernet(rng, rng.choice((1, 2))) + f.body(rng)


def calculator(rng: random.Random) -> Made:
    def frame() -> bytes:
        numbers = [rng.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, rng.getrandbits(32))) for _ in range(2)]
        code = rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12))
        skipped = b"\x7f123" if rng.randrange(5) == 0 else b""
        return b"\x50\x34" + skipped + struct.pack("!BIIQ", code, *numbers, rng.getrandbits(64)) + f.body(rng)

    return [], frame


def stacks(rng: random.Random) -> Made:
    entries = [
        modified(
            "stacks", P4TableEntry("self", action=Action("note", device=rng.getrandbits(16)), is_default_action=True)
        )
    ]

    def frame() -> bytes:
        count = rng.randrange(6)
        if rng.randrange(2):
            hops = [rng.choice((*PORTS, 99)) | (0x8000 if n == count - 1 else 0) for n in range(count)]
            return bytes([1, count]) + struct.pack(f"!{count}H", *hops) + f.body(rng)
        records = b"".join(struct.pack("!HI", rng.choice((1, 2, 0)), n) for n in range(count))
        return bytes([2, count if rng.randrange(5) else rng.randrange(6)]) + records + f.body(rng)

    return (entries if rng.randrange(3) else []), frame


def keys(rng: random.Random) -> Made:
    small = (0, 1, 0x10, 0x1F, 0x20, 0xFF)
    halves = (0, 50, 99, 100, 1000, 0xFFFF)
    words = (0, 1, 0x80000000, 0xFFFFFFFF)
    wide = (0, 1, 1 << 127, (1 << 128) - 1, 0xFD << 120)

    def put() -> Any:
        return Action("put", value=rng.getrandbits(32))

    entries: dict[str, Any] = {}

    def add(table: str, match: dict[str, Any], priority: int = 0) -> None:
        entries[f"{table} {sorted(match.items())} {priority}"] = P4TableEntry(
            table, match=Match(match), action=put(), priority=priority
        )

    for number in range(1, 9):
        a, b, c, d = rng.choice(small), rng.choice(halves), rng.choice(words), rng.choice(wide)
        add("exact_t", {"a": a, "c": c, "d": d})
        length = rng.choice((1, 8, 127, 128))
        prefix = d >> (128 - length) << (128 - length)
        add("lpm_t", {"a": a, "d": (prefix, length)})
        add("ternary_t", {"a": a, **_masked(rng, "c", c, 32), **_masked(rng, "d", d, 128)}, number)
        bounds = {"b": (b, rng.choice([item for item in halves if item >= b])), "d": (prefix, length)}
        if bounds["b"] == (0, 0xFFFF):
            del bounds["b"]
        add("range_t", {**({"a": a} if rng.randrange(2) else {}), **bounds}, number)
        optional = {key: value for key, value in (("a", a), ("b", b)) if rng.randrange(2)}
        add("optional_t", optional, number)

    def frame() -> bytes:
        table = rng.randrange(6)
        key = struct.pack("!BBHI", table, rng.choice(small), rng.choice(halves), rng.choice(words))
        return key + rng.choice(wide).to_bytes(16, "big") + bytes(4) + f.body(rng)

    return list(entries.values()), frame


def _masked(rng: random.Random, name: str, value: int, width: int) -> dict[str, tuple[int, int]]:
    mask = rng.choice((0, (1 << width) - 1, rng.getrandbits(width), 1 << (width - 1)))
    return {name: (value & mask, mask)} if mask else {}


def copies(rng: random.Random) -> Made:
    entries = [
        P4CloneSessionEntry(5, replicas=[(rng.choice(PORTS), 1)]),
        P4CloneSessionEntry(6, replicas=[(rng.choice(PORTS), 2)]),
        P4MulticastGroupEntry(9, replicas=[(number, number + 40) for number in rng.sample(PORTS, 3)]),
    ]

    def frame() -> bytes:
        what = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8))
        value = rng.choice((9, 9, 8)) if what == 3 else rng.choice((0, 5, 20, 500))
        return struct.pack("!BBH", what, rng.choice(PORTS), value) + f.body(rng)

    return entries, frame


def state(rng: random.Random) -> Made:
    entries: list[Any] = [P4DigestEntry("learned_t", max_list_size=1, max_timeout_ns=0, ack_timeout_ns=0)]
    for index in range(4):
        small = rng.choice((20, 60))
        config = P4MeterConfig(cir=0, cburst=small, pir=0, pburst=small + rng.choice((0, 100)))
        entries.append(modified("state", P4MeterEntry("by_index", index=index, config=config)))
    for index in range(6):
        if rng.randrange(2):
            action = Action("send", port=rng.choice(PORTS), priority=rng.randrange(8))
            entries.append(P4TableEntry("classes", match=Match(index=index), action=action))

    def frame() -> bytes:
        what = rng.choice((1, 2, 3, 4, 6, 7, 8, 9))
        index = rng.randrange(4) if what in (3, 8) else rng.randrange(8)
        return struct.pack("!BBHI", what, index, 0, rng.getrandbits(32)) + f.body(rng)

    return entries, frame


def wide(rng: random.Random) -> Made:
    keys = [0, 1, (1 << 256) - 1, 1 << 255, 0xABCD << 200, 0xABCD << 200 | 7, rng.getrandbits(256)]

    def number(bits: int) -> int:
        some = (
            0,
            1,
            (1 << bits) - 1,
            1 << (bits - 1),
            (1 << (bits - 1)) - 1,
            rng.getrandbits(bits),
            rng.getrandbits(60),
        )
        return rng.choice(some) & ((1 << bits) - 1)

    def action() -> Any:
        return rng.choice((Action("send", port=port(rng)), Action("mask", **{"with": rng.choice((0, *keys))})))

    entries: dict[str, Any] = {"clone": P4CloneSessionEntry(5, replicas=[(rng.choice(PORTS), 1)])}
    for priority in range(1, 5):
        key, length = rng.choice(keys), rng.choice((1, 64, 65, 200, 256))
        prefix = key >> (256 - length) << (256 - length)
        bits = rng.choice((1, 1 << 255, (1 << 256) - 1, 0xFFFF << 200, rng.getrandbits(256) | 2))
        ends = sorted((key, rng.choice(keys)))
        entries[f"exactly {key}"] = P4TableEntry("exactly", match=Match(key=key), action=action())
        entries[f"longest {prefix} {length}"] = P4TableEntry(
            "longest", match=Match(key=(prefix, length)), action=action()
        )
        for table, match in (("masked", (key & bits, bits)), ("between", tuple(ends))):
            if match != (0, (1 << 256) - 1):
                entry = P4TableEntry(table, match=Match(key=match), action=action(), priority=priority)
                entries[f"{table} {match}"] = entry

    def frame() -> bytes:
        what = rng.choice((0, *range(16)))
        key = rng.choice((*keys, rng.getrandbits(256))).to_bytes(32, "big")
        tail = b"" if what == 0 else number(2048).to_bytes(256, "big") + number(512).to_bytes(64, "big")
        tail += (
            b"" if what == 0 else number(520).to_bytes(65, "big") + bytes([rng.choice((0, 1, 63, 64, 65, 200, 255))])
        )
        data = f.body(rng)
        if rng.randrange(2):  # an even number of bytes, and a checksum that is right
            data = data[: len(data) // 2 * 2]
        covered = bytes([what, 0]) + key + tail + data
        checksum = f.internet_sum(covered) if len(covered) % 2 == 0 else rng.getrandbits(16)
        return bytes([what, 0]) + checksum.to_bytes(2, "big") + bytes(4) + key + tail + data

    return list(entries.values()), frame


SCENARIOS: dict[str, Callable[[random.Random], Made]] = {
    function.__name__: function
    for function in (
        forward,
        tunnel,
        telemetry,
        balance,
        firewall,
        monitor,
        learning,
        packet_io,
        policing,
        calculator,
        stacks,
        keys,
        copies,
        state,
        wide,
        fabric,
    )
}


# An index out of range, or a field of a header that is not there, is undefined in BMv2 as it is built for speed.
# Programs that do not look first get no damaged frames.
TRUSTING = {"copies", "keys", "state"}


def draw(name: str, rng: random.Random, frames: int) -> Vector:
    """A vector of a program."""
    entities, frame = SCENARIOS[name](rng)
    return vector(name, entities, _arrivals(name, rng, frame, frames))


def _arrivals(name: str, rng: random.Random, frame: Callable[[], bytes], count: int) -> Iterator[tuple[int, bytes]]:
    for _ in range(count):
        if name == "packet_io" and rng.randrange(4) == 0:
            head = rng.choice(PORTS) << 7 | (0x40 if rng.randrange(3) == 0 else 0)
            yield CPU_PORT, head.to_bytes(2, "big") + frame()
        else:
            # BMv2's interfaces, as any Ethernet, never see less than an Ethernet header
            arriving = frame() if name in TRUSTING else f.damaged(rng, frame())
            yield rng.choice(PORTS), arriving.ljust(14, b"\0")
