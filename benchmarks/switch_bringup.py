"""Bring-up of 24 switches in one process: ready, pipeline and entries, memory; and a large write."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.links import VethPair, client, links, switch_process, usid_entries
from benchmarks.report import Measurement

SWITCHES = 24
PORTS = 4
ENTRIES = 30
LARGE_WRITE = 1000


def measure() -> Iterator[Measurement]:
    """Times from the start of the process on (the compiled program is in the cache)."""
    with tempfile.TemporaryDirectory() as folder, links(SWITCHES * PORTS) as cables:
        config = Path(folder) / "switches.json"
        config.write_text(json.dumps({"grpc": f"unix:{folder}/p4rt.sock", "switches": _switches(cables)}))
        yield from _measure(config)


def _switches(cables: list[VethPair]) -> list[dict[str, object]]:
    return [
        {
            "device_id": number + 1,
            "ports": {port + 1: cables[number * PORTS + port].inside for port in range(PORTS)},
            "rate": "100M",
        }
        for number in range(SWITCHES)
    ]


def _measure(config: Path) -> Iterator[Measurement]:
    with switch_process("--config", str(config)) as (_, address):
        asyncio.run(_program_all(address))  # fills the cache when it is empty
    start = time.monotonic()
    with switch_process("--config", str(config)) as (process, address):
        yield Measurement("switch_bringup_ready", time.monotonic() - start, "s")
        asyncio.run(_program_all(address))
        yield Measurement(f"switch_bringup_{SWITCHES}", time.monotonic() - start, "s")
        status = Path(f"/proc/{process.pid}/status").read_text()
        resident = int(status.partition("VmRSS:")[2].split()[0]) * 1024
        yield Measurement("switch_memory_each", resident / SWITCHES, "bytes")
        yield Measurement(f"switch_write_{LARGE_WRITE}", asyncio.run(_large_write(address)), "s")


async def _program_all(address: str) -> None:
    async def one(device_id: int) -> None:
        async with client(address, device_id) as switch:
            await switch.write([+entry for entry in usid_entries(ENTRIES - 1)])

    await asyncio.gather(*(one(device_id) for device_id in range(1, SWITCHES + 1)))


async def _large_write(address: str) -> float:
    async with client(address) as switch:
        entries = [+entry for entry in usid_entries(LARGE_WRITE, first=0x5000)[1:]]
        start = time.monotonic()
        await switch.write(entries)
        return time.monotonic() - start
