"""Table lookups: device calls with 10 and with 10,000 entries of each match kind, and with the fabric's program.

A device call is `receive` and `transmit`, as a simulated world makes them; packets ask for entries all over the table.
What a call costs without the lookup is in both measurements, as it is when packets come over wires (where it is more);
there are equally many different packets in both, so that memory for packets counts the same. Time is that of the CPU,
and ratios are medians of those of neighbouring runs, as other work on the machine comes and goes.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator

from benchmarks.links import BLOCK, FABRIC
from benchmarks.report import Measurement
from benchmarks.switch_forwarding import usid_packet
from mrc_common.p4_match import Exact, Lpm, Match, Optional, Range, Ternary
from p4runtime_shim.entities import ActionCall, Entry
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import EmbeddedSwitch

KEYS = FABRIC.parents[2] / "tests" / "p4runtime_shim" / "programs" / "keys.json"
FEW, MANY = 10, 10_000
CALLS = 20_000
ROUNDS = 21
PACKETS = 4096
EVERY = (1 << 128) - 1

Rows = Callable[[random.Random, int], list[tuple[tuple[Match, ...], bytes]]]


def measure() -> Iterator[Measurement]:
    """Calls a second; the ratio is to a table with 10 entries."""
    yield from _device_call()
    pipeline = Pipeline.load(KEYS.read_text())
    for number, (table, rows) in enumerate(_KINDS.items()):
        with Filled(pipeline, table, number, rows, FEW) as few, Filled(pipeline, table, number, rows, MANY) as many:
            pairs = [(few.time(), many.time()) for _ in range(ROUNDS)]
        ratio = statistics.median(small / large for small, large in pairs)
        value = 1 / statistics.median(large for _, large in pairs)
        yield Measurement(f"switch_{table}_{MANY}_entries", value, "calls/s", ratio, f"{FEW} entries")


def _device_call() -> Iterator[Measurement]:
    pipeline = Pipeline.load(FABRIC.read_text())
    names = {name.rpartition(".")[2]: name for name in pipeline.tables}
    forward = next(name for name in pipeline.actions if name.endswith("usid_endpoint.set_egress"))
    shift = next(name for name in pipeline.actions if name.endswith("usid_shift"))
    with EmbeddedSwitch(pipeline, ports=(1, 2), seed=1) as switch:
        switch.control_plane.table(names["usid_local"]).insert(Entry((Exact(BLOCK << 16 | 0x2001),), ActionCall(shift)))
        switch.control_plane.table(names["usid_next"]).insert(
            Entry((Exact(BLOCK << 16 | 0x4001),), ActionCall(forward, (2, 1, 3)))
        )
        frame = usid_packet(4200).ljust(4200, b"\0")
        best = min(_calls(switch, [frame], 1, 2) for _ in range(ROUNDS))
        yield Measurement("switch_device_call_4200B", best, "s")


def _calls(switch: EmbeddedSwitch, frames: list[bytes], port: int, out: int) -> float:
    """Seconds a call."""
    start = time.thread_time()
    for _ in range(CALLS // len(frames)):
        for frame in frames:
            switch.receive(port, frame, 0)
            if switch.transmit(out, 0) is None:
                raise RuntimeError("a packet did not come out")
    return (time.thread_time() - start) / (CALLS // len(frames) * len(frames))


class Filled:
    """A switch with a table full of entries, and packets that hit them."""

    def __init__(self, pipeline: Pipeline, table: str, number: int, rows: Rows, count: int) -> None:
        rng = random.Random(1)
        name = next(found for found in pipeline.tables if found.endswith(f".{table}_t"))
        put = next(found for found in pipeline.actions if found.endswith(".put"))
        self._switch = EmbeddedSwitch(pipeline, ports=(1, 2), seed=1)
        prioritised = table in ("ternary", "range", "optional")
        made = rows(rng, count)
        for position, (match, _) in enumerate(made):
            priority = position + 1 if prioritised else 0
            self._switch.control_plane.table(name).insert(Entry(match, ActionCall(put, (position,)), priority))
        self._frames = [bytes([number]) + key + bytes(60) for _, key in rng.choices(made, k=PACKETS)]
        self._out = 2 if table == "exact" else 1

    def __enter__(self) -> Filled:
        return self

    def __exit__(self, *_: object) -> None:
        self._switch.close()

    def time(self) -> float:
        """Seconds a call."""
        return _calls(self._switch, self._frames, 1, self._out)


def _key(a: int, b: int, c: int, d: int) -> bytes:
    return a.to_bytes(1, "big") + b.to_bytes(2, "big") + c.to_bytes(4, "big") + d.to_bytes(16, "big")


def _exact(rng: random.Random, count: int) -> list[tuple[tuple[Match, ...], bytes]]:
    keys = [(rng.getrandbits(8), rng.getrandbits(32), rng.getrandbits(128)) for _ in range(count)]
    return [((Exact(a), Exact(c), Exact(d)), _key(a, 0, c, d)) for a, c, d in keys]


def _lpm(rng: random.Random, count: int) -> list[tuple[tuple[Match, ...], bytes]]:
    """Prefixes of lengths 32 to 128, as in an IPv6 routing table."""
    rows: dict[tuple[Match, ...], bytes] = {}
    while len(rows) < count:
        length, value = rng.randint(32, 128), rng.getrandbits(128)
        prefix = value >> (128 - length) << (128 - length)
        rows[Lpm(prefix, length), Exact(7)] = _key(7, 0, 0, value)
    return list(rows.items())


def _ternary(rng: random.Random, count: int) -> list[tuple[tuple[Match, ...], bytes]]:
    """An access list: networks under a mask, and one of few ports or any."""
    rows = []
    for _ in range(count):
        c, d, length = rng.getrandbits(32), rng.getrandbits(128), rng.choice((32, 48, 64, 128))
        mask = EVERY >> (128 - length) << (128 - length)
        c_mask = rng.choice((0, 0xFFFFFFFF, 0xFFFF0000))
        rows.append(((Exact(3), Ternary(c & c_mask, c_mask), Ternary(d & mask, mask)), _key(3, 0, c, d)))
    return rows


def _range(rng: random.Random, count: int) -> list[tuple[tuple[Match, ...], bytes]]:
    """Port ranges within networks."""
    rows = []
    for _ in range(count):
        low, width, c, d = rng.randrange(60000), rng.randrange(1, 4000), rng.getrandbits(32), rng.getrandbits(128)
        prefix = d >> 80 << 80
        match = (Optional(5), Range(low, min(0xFFFF, low + width)), Range(0, 0xFFFFFFFF), Lpm(prefix, 48))
        rows.append((match, _key(5, low, c, d)))
    return rows


def _optional(rng: random.Random, count: int) -> list[tuple[tuple[Match, ...], bytes]]:
    rows: dict[tuple[Match, ...], bytes] = {}
    while len(rows) < count:
        a, b = rng.getrandbits(8), rng.getrandbits(16)
        rows[(Optional(rng.choice((a, None))) if len(rows) % 100 == 0 else Optional(a)), Optional(b)] = _key(a, b, 0, 0)
    return list(rows.items())


_KINDS: dict[str, Rows] = {
    "exact": _exact,
    "lpm": _lpm,
    "ternary": _ternary,
    "range": _range,
    "optional": _optional,
}
