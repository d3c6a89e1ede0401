"""The exporter over HTTP: who may ask for what, and how often a fabric is read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from mrc_common.grpc_endpoint import EndpointError
from mrc_lab.telemetry import exporter
from mrc_lab.telemetry.exporter import Exporter, check_address
from mrc_lab.telemetry.readings import FabricReading
from tests.mrc_lab.telemetry.values import reading
from tests.waiting import until_async


class Fabric:
    """What is read: nothing before `open`, then `now`; or an error. Counts readings."""

    def __init__(self) -> None:
        self.now: FabricReading | None = reading()
        self.error: Exception | None = None
        self.open = asyncio.Event()
        self.open.set()
        self.readings = 0

    async def read(self) -> FabricReading | None:
        self.readings += 1
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return self.now


class Site:
    """An exporter, its address, the fabric behind it and a client."""

    def __init__(self, fabric: Fabric, address: str, client: aiohttp.ClientSession) -> None:
        self.fabric = fabric
        self.address = address
        self.port = int(address.rpartition(":")[2])
        self._client = client

    async def ask(self, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[int, str]:
        """Status and text of an answer."""
        async with self._client.request(method, f"http://{self.address}{path}", headers=headers) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def serving(host: str = "127.0.0.1") -> AsyncIterator[Site]:
    fabric = Fabric()
    server = Exporter(fabric.read, host, 0)
    await server.start()
    try:
        async with aiohttp.ClientSession() as client:
            yield Site(fabric, server.address, client)
    finally:
        await server.close()


def on_site(test: Callable[[Site], Coroutine[Any, Any, None]], host: str = "127.0.0.1") -> None:
    async def run() -> None:
        async with serving(host) as site:
            await test(site)

    asyncio.run(run())


def test_metrics_are_served_as_text_for_prometheus():
    async def test(site: Site) -> None:
        status, text = await site.ask()
        assert status == 200
        assert 'node_infiniband_state_id{device="h1",port="0"} 4.0' in text
        assert await site.ask(method="HEAD") == (200, "")
        assert await site.ask("/") == (200, "Metrics of an MRC fabric: /metrics\n")

    on_site(test)


def test_each_scrape_reads_the_fabric_afresh():
    async def test(site: Site) -> None:
        assert "mrc_up 1.0" in (await site.ask())[1]
        site.fabric.now = None
        assert (await site.ask())[1].splitlines()[-1] == "mrc_up 0.0"
        site.fabric.now = reading()
        assert "mrc_up 1.0" in (await site.ask())[1]
        assert site.fabric.readings == 3

    on_site(test)


def test_scrapes_at_the_same_time_share_one_reading():
    async def test(site: Site) -> None:
        site.fabric.open.clear()
        scrapes = [asyncio.create_task(site.ask()) for _ in range(8)]
        await until_async(lambda: site.fabric.readings, "the first scrape")
        site.fabric.open.set()
        answers = await asyncio.gather(*scrapes)
        assert {status for status, _ in answers} == {200}
        assert site.fabric.readings == 1

    on_site(test)


def test_a_scraper_that_hangs_up_takes_nothing_from_the_others():
    async def test(site: Site) -> None:
        site.fabric.open.clear()
        gone, waiting = asyncio.create_task(site.ask()), asyncio.create_task(site.ask())
        await until_async(lambda: site.fabric.readings, "the first scrape")
        gone.cancel()
        site.fabric.open.set()
        assert (await waiting)[0] == 200

    on_site(test)


def test_an_error_in_a_reading_fails_that_scrape_only():
    async def test(site: Site) -> None:
        site.fabric.error = RuntimeError("broken")
        assert (await site.ask())[0] == 500
        site.fabric.error = None
        assert (await site.ask())[0] == 200

    on_site(test)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost",
        "",
        "::",
        f"localhost:{'9' * 5000}",
    ],
)
def test_a_request_that_names_another_address_is_refused(host: str):
    async def test(site: Site) -> None:
        status, text = await site.ask(Host=host.format(port=site.port))
        assert status == 403
        assert site.address in text
        assert not site.fabric.readings

    on_site(test)


def test_a_request_that_names_no_address_is_refused():
    async def test(site: Site) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.0 403")
        writer.close()

    on_site(test)


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_a_request_may_name_loopback_as_it_likes(host: str):
    async def test(site: Site) -> None:
        assert (await site.ask(Host=host.format(port=site.port)))[0] == 200

    on_site(test)


def test_on_every_address_a_request_names_this_machine_or_a_number():
    async def test(site: Site) -> None:
        for host, status in ((socket.gethostname(), 200), ("10.1.2.3", 200), ("evil.example", 403)):
            assert (await site.ask(Host=f"{host}:{site.port}"))[0] == status

    on_site(test, "0.0.0.0")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_but_reading_is_possible(method: str):
    async def test(site: Site) -> None:
        for path in ("/metrics", "/"):
            assert await site.ask(path, method) == (405, "Only GET and HEAD are possible.\n")
        assert not site.fabric.readings

    on_site(test)


@pytest.mark.parametrize("path", ["/metrics/", "/x", "/../etc/passwd", "/metrics/x"])
def test_there_is_nothing_else(path: str):
    async def test(site: Site) -> None:
        assert (await site.ask(path))[0] == 404

    on_site(test)


def test_idle_connections_of_others_blind_nobody(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exporter, "MAX_CONNECTIONS", 2)

    async def test(site: Site) -> None:
        held = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(5)]
        assert (await site.ask())[0] == 200
        assert [await reader.read(1) for reader, _ in held[:4]] == [b""] * 4, "the oldest made room"
        for _, writer in held:
            writer.close()

    on_site(test)


def test_an_address_off_loopback_must_be_asked_for():
    for address in ("0.0.0.0:9464", "10.0.0.1:9464", "[::]:9464", "testbed:9464"):
        with pytest.raises(EndpointError, match=r"reachable from the network.*--public"):
            check_address(address, public=False)
        assert check_address(address, public=True)[1] == 9464
    assert check_address("127.0.0.1:9464", public=False) == ("127.0.0.1", 9464)
    assert check_address("[::1]:0", public=False) == ("::1", 0)
    with pytest.raises(EndpointError, match="no address to listen on"):
        check_address("9464", public=False)


def test_a_port_in_use_is_one_sentence():
    async def run() -> None:
        async with serving() as site:
            with pytest.raises(EndpointError, match=rf"^Cannot listen on {site.address}: Address already in use\.$"):
                await Exporter(site.fabric.read, "127.0.0.1", site.port).start()

    asyncio.run(run())
