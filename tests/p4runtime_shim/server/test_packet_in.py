"""A flood of packets for the controller: so many a second go out, the others wait, requests are answered."""

from __future__ import annotations

import asyncio
import time

from finsy.proto import p4r

from tests.p4runtime_shim.server import world
from tests.p4runtime_shim.server.world import Client, fabric_json, fabric_p4info
from tests.waiting import until_async

FLOOD = 5000


def test_a_packet_in_flood_is_rate_limited_and_starves_no_request() -> None:
    async def work() -> None:
        async with world.world() as made, made.channel() as channel:
            client = Client(channel)
            await client.arbitrate()
            await client.set_config(fabric_p4info(), fabric_json())
            device, fake = made.devices[1], made.fakes[1]
            device.limit_packets(1000)
            start = time.monotonic()
            fake.outbox.extend([bytes(20)] * FLOOD)
            fake.punt(bytes(20))
            for _ in range(20):
                await client.read(p4r.Entity(table_entry={}))
            await until_async(lambda: device.packets_delivered >= 600, "more packets than the burst")
            allowed = 500 + 1000 * (time.monotonic() - start) + 1
            assert device.packets_delivered + device.packets_undeliverable <= allowed
            assert len(fake.outbox) >= FLOOD - allowed
            device.limit_packets(0)
            await until_async(lambda: not fake.outbox, "all packets to be taken")
            assert device.packets_delivered == FLOOD + 1

    asyncio.run(work())
