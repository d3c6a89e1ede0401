"""BMv2 on real interfaces: a process in a network namespace of its own, for its Thrift port is open to all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path

import finsy
import pytest

from controller import translate
from tests.integration.veth_switch import Wire, namespace, wires
from tests.waiting import until
from topologies.emulation import namespaces
from topologies.emulation.bmv2 import ThriftClient
from topologies.emulation.errors import ProcessError
from topologies.emulation.switches import bmv2_options
from topologies.entries import SwitchEntries, TableEntry

BUILD = Path(__file__).parents[2] / "p4src" / "build"
CPU_PORT = 510
THRIFT_PORT = 9090

needs_bmv2 = [
    pytest.mark.root,
    pytest.mark.bmv2,
    pytest.mark.skipif(shutil.which("simple_switch_grpc") is None, reason="BMv2 is not installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces needs root"),
]


class Bmv2:
    """One switch that runs the fabric program; port n is `wires[n - 1]`."""

    def __init__(self, cables: list[Wire], directory: Path, namespace: str) -> None:
        self.wires = cables
        self._address = f"unix:{directory}/grpc.sock"
        log = (directory / "log").open("wb")
        command = ["ip", "netns", "exec", namespace, "simple_switch_grpc", "--no-p4", "--device-id", "1"]
        for number, wire in enumerate(cables, 1):
            command += ["-i", f"{number}@{wire.inside}"]
        addresses = {"--thrift-port": str(THRIFT_PORT), "--notifications-addr": f"ipc://{directory}/notify.ipc"}
        command += [*bmv2_options(addresses), "--"]
        command += ["--grpc-server-addr", self._address, "--priority-queues", "8", "--cpu-port", str(CPU_PORT)]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        log.close()
        until(lambda: (directory / "grpc.sock").exists(), "BMv2 to listen", 20)
        self.control(_nothing)  # sets the pipeline

    def control(self, work: Callable[[finsy.Switch], Awaitable[None]]) -> None:
        """Connect, set the pipeline if need be, do the work."""
        options = finsy.SwitchOptions(p4info=BUILD / "fabric.p4info.txtpb", p4blob=BUILD / "fabric.json", device_id=1)

        async def run() -> None:
            async with finsy.Switch("bmv2", self._address, options) as switch:
                await work(switch)

        asyncio.run(run())

    def program(self, entries: SwitchEntries) -> None:
        """Write neutral entries and read them back."""

        async def work(switch: finsy.Switch) -> None:
            for stage in (entries.members, entries.groups, entries.entries):
                if stage:
                    await switch.write([+translate.encode(entry, switch.p4info) for entry in stage])
            found = [entity async for entity in switch.read(translate.wildcards(switch.p4info))]  # type: ignore[attr-defined]
            read = translate.decode_all("bmv2", found, switch.p4info)
            assert set(read.entries) >= set(entries.entries)
            assert set(read.members) >= set(entries.members)
            assert set(read.groups) >= set(entries.groups)

        self.control(work)

    def write(self, *entries: TableEntry) -> None:
        self.program(SwitchEntries("bmv2", (), (), entries))

    def delete(self, *entries: TableEntry) -> None:
        async def work(switch: finsy.Switch) -> None:
            await switch.write([-translate.encode(entry, switch.p4info) for entry in entries])

        self.control(work)

    def drops(self) -> dict[int, int]:
        """Packets dropped, by reason, without those that are zero."""
        found: dict[int, int] = {}

        async def work(switch: finsy.Switch) -> None:
            async for cell in switch.read(finsy.P4CounterEntry("drop_reasons")):  # type: ignore[attr-defined]
                if cell.packet_count:
                    found[cell.index] = cell.packet_count

        self.control(work)
        return found

    def hits(self, entries: Iterable[TableEntry]) -> list[int]:
        """Packets that each entry's direct counter has seen."""
        counts: list[int] = []

        async def work(switch: finsy.Switch) -> None:
            for entry in entries:
                wanted = translate.encode(entry, switch.p4info)
                assert isinstance(wanted, finsy.P4TableEntry)
                wanted.action, wanted.counter_data = None, finsy.P4CounterData()
                wanted.match = finsy.P4TableEntry.decode(wanted.encode(switch.p4info), switch.p4info).match
                # An entry whose key is all don't-care asks for the whole table.
                answers = [answer async for answer in switch.read(wanted)]  # type: ignore[attr-defined]
                own = [answer for answer in answers if answer.match == wanted.match]
                counts.extend(answer.counter_data.packet_count for answer in own)

        self.control(work)
        return counts

    def thrift(self) -> ThriftClient:
        """A client of the Thrift interface, from inside the namespace; it comes up after that of P4Runtime."""

        def client() -> ThriftClient | None:
            try:
                return namespaces.run_inside(self.process.pid, lambda: ThriftClient(THRIFT_PORT))
            except ProcessError:
                return None

        found = until(client, "BMv2's Thrift interface")
        assert found is not None
        return found

    def queued(self, port: int, priority: int = 0) -> int:
        """Bytes of data that the program believes to wait in a queue."""
        with self.thrift() as client:
            return client.register("queue_bytes", port << 3 | priority)

    def collect(self, quiet: float = 0.4) -> dict[int, list[bytes]]:
        """What has come out of each port, once nothing more comes."""
        found: dict[int, list[bytes]] = {}
        last = time.monotonic()
        for wire in self.wires:
            wire.socket.settimeout(0)
        while time.monotonic() < last + quiet:
            for number, wire in enumerate(self.wires, 1):
                with contextlib.suppress(BlockingIOError):
                    while frame := wire.socket.recv(65536):
                        found.setdefault(number, []).append(frame)
                        last = time.monotonic()
            time.sleep(0.005)
        return found

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


async def _nothing(_: finsy.Switch) -> None:
    return None


@contextlib.contextmanager
def bmv2(directory: Path, ports: int = 4) -> Iterator[Bmv2]:
    """A BMv2 with the fabric program and empty tables."""
    with wires(ports) as cables, namespace(f"mrcb{os.getpid()}", cables) as place:
        switch = Bmv2(cables, directory, place)
        try:
            yield switch
        finally:
            switch.stop()
