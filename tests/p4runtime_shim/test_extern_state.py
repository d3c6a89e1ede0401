"""Registers, counters, meters, hash, random, digests (state.p4)."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

import pytest

from mrc_common.p4_match import Exact
from p4runtime_shim.entities import ActionCall, CounterValue, Digest, Entry, MeterColors, MeterConfig
from p4runtime_shim.errors import InvalidArgument, NotFound
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import programs

P = "MyIngress."
GREEN, YELLOW, RED = 0, 1, 2


@pytest.fixture
def switch() -> Iterator[EmbeddedSwitch]:
    with EmbeddedSwitch(programs.pipeline("state"), ports=range(4), seed=5) as made:
        yield made


def ask(switch: EmbeddedSwitch, what: int, index: int = 0, value: int = 0, *, now: int = 0, size: int = 8) -> int:
    """Send a request, get the value back."""
    frame = bytes([what, index]) + value.to_bytes(6, "big")
    switch.receive(3, frame + bytes(size - 8), now)
    for port in switch.ready():
        out = switch.transmit(port, now)
        assert out is not None
        return int.from_bytes(out[2:8], "big")
    raise AssertionError("no packet came out")


def test_registers_are_swapped_by_packets_and_written_by_the_control_plane(switch: EmbeddedSwitch) -> None:
    assert ask(switch, 1, 3, 0x123456789ABC) == 0
    assert switch.control_plane.externs.register_read(P + "last", 3) == 0x123456789ABC
    switch.control_plane.externs.register_write(P + "last", 3, 7)
    assert ask(switch, 1, 3, 9) == 7
    assert ask(switch, 1, 4, 1) == 0


def test_register_writes_out_of_range_change_nothing(switch: EmbeddedSwitch) -> None:
    assert ask(switch, 1, 200, 5) == 0  # `old` keeps its value, which is 0
    assert all(switch.control_plane.externs.register_read(P + "last", i) == 0 for i in range(16))
    with pytest.raises(NotFound):
        switch.control_plane.externs.register_read(P + "last", 16)
    with pytest.raises(NotFound):
        switch.control_plane.externs.register_read(P + "first", 0)
    with pytest.raises(InvalidArgument):
        switch.control_plane.externs.register_write(P + "last", 0, 1 << 48)


def test_wide_registers_hold_their_values(switch: EmbeddedSwitch) -> None:
    cell = 0
    for step in range(12):
        fallen = ask(switch, 8, 2, step)
        assert fallen == cell >> 128
        cell = ((cell << 40) & ((1 << 129) - 1)) | fallen | 1
        assert switch.control_plane.externs.register_read(P + "wide", 2) == cell
    value = (1 << 129) - 5
    switch.control_plane.externs.register_write(P + "wide", 1, value)
    assert switch.control_plane.externs.register_read(P + "wide", 1) == value


def test_indirect_counters_count_packets_and_bytes(switch: EmbeddedSwitch) -> None:
    ask(switch, 2, 6, size=100)
    ask(switch, 2, 6, size=60)
    ask(switch, 2, 99)
    assert switch.control_plane.externs.counter_read(P + "seen", 6) == CounterValue(2, 160)
    assert [item.packets for item in switch.control_plane.externs.counter_read_all(P + "seen")] == [
        0,
        0,
        0,
        0,
        0,
        0,
        2,
        0,
    ]
    switch.control_plane.externs.counter_write(P + "seen", 6, CounterValue(1 << 40, 1 << 63))
    ask(switch, 2, 6, size=10)
    assert switch.control_plane.externs.counter_read(P + "seen", 6) == CounterValue((1 << 40) + 1, (1 << 63) + 10)
    with pytest.raises(NotFound):
        switch.control_plane.externs.counter_read(P + "seen", 8)
    with pytest.raises(InvalidArgument, match="direct"):
        switch.control_plane.externs.counter_read(P + "entries", 0)


def test_meter_colors_follow_rates_and_bursts(switch: EmbeddedSwitch) -> None:
    assert ask(switch, 3, 1) == GREEN  # not configured
    # 100 kB/s committed with 1000 bytes of burst, 200 kB/s peak with 2000
    config = MeterConfig(cir=100_000, cburst=1000, pir=200_000, pburst=2000)
    switch.control_plane.externs.meter_write(P + "by_index", 1, config)
    assert switch.control_plane.externs.meter_read(P + "by_index", 1) == config
    colors = [ask(switch, 3, 1, now=0, size=500) for _ in range(6)]
    assert colors == [GREEN, GREEN, YELLOW, YELLOW, RED, RED]
    assert ask(switch, 3, 1, now=5_000_000, size=500) == GREEN  # 5 ms: 500 bytes committed, 1000 peak
    assert ask(switch, 3, 1, now=5_000_000, size=500) == YELLOW
    assert ask(switch, 3, 1, now=5_000_000, size=500) == RED
    assert ask(switch, 3, 0, now=0, size=500) == GREEN  # another cell
    assert switch.control_plane.externs.colors_read(P + "by_index", 1) == MeterColors(
        CounterValue(4, 1508), CounterValue(3, 1500), CounterValue(3, 1500)
    )
    switch.control_plane.externs.meter_write(P + "by_index", 1, None)
    assert ask(switch, 3, 1, now=5_000_000, size=500) == GREEN
    assert switch.control_plane.externs.colors_read(P + "by_index", 1).green == CounterValue(5, 2008)
    switch.control_plane.externs.colors_write(P + "by_index", 1, MeterColors())
    assert switch.control_plane.externs.colors_read(P + "by_index", 1) == MeterColors()
    assert switch.control_plane.externs.colors_read(P + "by_index", 0).green == CounterValue(1, 500)


@pytest.mark.parametrize("rate", [10**9, 10**12, 10**15, 2**62, 2**63 - 1])
def test_a_meter_below_its_rate_stays_green_for_months(switch: EmbeddedSwitch, rate: int) -> None:
    """1,000 bytes every millisecond are 1 MB/s; a count of all tokens since the start passes 2**64 within seconds."""
    switch.control_plane.externs.meter_write(P + "by_index", 1, MeterConfig(rate, 10_000, rate, 10_000))
    for second in (0, 1, 3, 10, 3600, 86_400, 10_000_000):
        start = second * 10**9
        colors = [ask(switch, 3, 1, now=start + number * 10**6, size=1000) for number in range(20)]
        assert colors == [GREEN] * 20, f"after {second} s"


def test_meters_accept_bursts_of_any_size(switch: EmbeddedSwitch) -> None:
    switch.control_plane.externs.meter_write(P + "by_index", 1, MeterConfig(0, 2**63 - 1, 0, 2**63 - 1))
    assert [ask(switch, 3, 1, size=9000) for _ in range(50)] == [GREEN] * 50
    switch.control_plane.externs.meter_write(P + "by_index", 1, MeterConfig(2**63 - 1, 0, 2**63 - 1, 0))
    assert ask(switch, 3, 1, now=10**18, size=500) == RED


def test_invalid_meter_settings_are_refused(switch: EmbeddedSwitch) -> None:
    with pytest.raises(InvalidArgument):
        switch.control_plane.externs.meter_write(P + "by_index", 0, MeterConfig(2, 1, 1, 1))
    with pytest.raises(InvalidArgument):
        switch.control_plane.externs.meter_write(P + "by_index", 0, MeterConfig(-1, 1, 1, 1))
    for config in (MeterConfig(1, 2**63, 1, 1), MeterConfig(1, 1, 2**63, 1), MeterConfig(1, 1, 1, 2**70)):
        with pytest.raises(InvalidArgument, match="at most"):
            switch.control_plane.externs.meter_write(P + "by_index", 0, config)
    with pytest.raises(NotFound):
        switch.control_plane.externs.meter_write(P + "by_index", 4, None)
    with pytest.raises(InvalidArgument, match="direct"):
        switch.control_plane.externs.meter_write(P + "by_entry", 0, None)


def test_direct_meters_color_packets(switch: EmbeddedSwitch) -> None:
    match = (Exact(9),)
    switch.control_plane.table(P + "classes").insert(Entry(match, ActionCall(P + "send", (2, 0))))
    assert ask(switch, 7, 9) == GREEN
    config = MeterConfig(cir=0, cburst=2, pir=0, pburst=3)
    switch.control_plane.table(P + "classes").meter_write(match, 0, config)
    assert switch.control_plane.table(P + "classes").meter_read(match) == config
    assert [ask(switch, 7, 9) for _ in range(5)] == [GREEN, GREEN, YELLOW, RED, RED]
    assert switch.control_plane.table(P + "classes").counter_read(match).packets == 6
    colors = switch.control_plane.table(P + "classes").colors_read(match)
    assert (colors.green.packets, colors.yellow.packets, colors.red.packets) == (3, 1, 2)
    switch.control_plane.table(P + "classes").colors_write(match, 0, MeterColors(red=CounterValue(7, 8)))
    assert switch.control_plane.table(P + "classes").colors_read(match) == MeterColors(red=CounterValue(7, 8))


def test_hash_results_stay_in_their_range(switch: EmbeddedSwitch) -> None:
    for index in (0, 1, 77, 255):
        assert ask(switch, 4, index) == 100 + zlib.crc32(bytes([4, index])) % 1000


def crc16(data: bytes) -> int:
    """CRC-16/ARC, bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0xA001 if crc & 1 else crc >> 1
    return crc


def test_crc16_matches_the_reference(switch: EmbeddedSwitch) -> None:
    for index in (0, 1, 77, 255):
        assert ask(switch, 9, index) == crc16(bytes([9, index]))


def test_random_values_are_in_range_and_follow_the_seed(switch: EmbeddedSwitch) -> None:
    drawn = [ask(switch, 5) for _ in range(300)]
    assert set(drawn) == set(range(10, 20))
    with EmbeddedSwitch(programs.pipeline("state"), ports=range(4), seed=5) as same:
        assert [ask(same, 5) for _ in range(300)] == drawn
    with EmbeddedSwitch(programs.pipeline("state"), ports=range(4), seed=6) as other:
        assert [ask(other, 5) for _ in range(300)] != drawn


def test_digests_are_delivered(switch: EmbeddedSwitch) -> None:
    event = os.eventfd(0, os.EFD_NONBLOCK)
    try:
        switch.set_digest_event(event)
        ask(switch, 6, 4, 0xABCDEF, now=1234)
        ask(switch, 6, 5, 1, now=2000)
        assert os.eventfd_read(event) == 2
    finally:
        switch.set_digest_event(-1)
        os.close(event)
    assert switch.control_plane.take_digests() == [
        Digest("learned_t", (4, 0xABCDEF, 3), 1234),
        Digest("learned_t", (5, 1, 3), 2000),
    ]
    assert switch.control_plane.take_digests() == []
    for _ in range(5000):
        ask(switch, 6)
    assert len(switch.control_plane.take_digests()) == 4096
    assert switch.digests_lost() == 5000 - 4096


def test_a_new_program_starts_with_empty_state(switch: EmbeddedSwitch) -> None:
    ask(switch, 1, 3, 5)
    ask(switch, 2, 3)
    switch.set_pipeline(programs.pipeline("state"))
    assert switch.control_plane.externs.register_read(P + "last", 3) == 0
    assert switch.control_plane.externs.counter_read(P + "seen", 3) == CounterValue()
