"""``mrc web``: the samplers, actions and server of one fabric in one process, until Ctrl-C or the end of the fabric.

Nothing is read while nobody watches, and nothing here is in the way of packets: the fabric's own processes answer a few
requests a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from controller.client import ControllerClient
from controller.values import MachineClock
from mrc_common import named_files
from mrc_common.grpc_endpoint import (
    MAX_KEY_FILE,
    EndpointError,
    EndpointSettings,
    check_port_free,
    check_settings,
    read_token,
    split_address,
)
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.live_view import new_token
from mrc_lab.web.actions import Actions
from mrc_lab.web.fabric_events import FabricEvents
from mrc_lab.web.feed import Feed
from mrc_lab.web.jobs import Jobs
from mrc_lab.web.link_sampler import LinkSampler
from mrc_lab.web.path_sampler import PathSampler
from mrc_lab.web.recording import Recorder
from mrc_lab.web.records import FabricLayout
from mrc_lab.web.server import LiveServer
from mrc_lab.web.switch_sampler import SwitchSampler
from mrc_lab.web.training_reports import TrainingReports
from topologies import loader
from topologies.emulation import switches
from topologies.emulation.attach import watching
from topologies.emulation.process_watch import ProcessWatch
from topologies.emulation.run_directory import RunDirectory

DEFAULT_ADDRESS = "127.0.0.1:8420"
_MAX_READERS = 16  # threads that ask agents and switches


def check_listening(address: str, settings: EndpointSettings) -> None:
    """Raises EndpointError where the page must not, or cannot, be served."""
    check_settings(address, settings)
    check_port_free(address)


def serve(
    run: RunDirectory,
    address: str,
    settings: EndpointSettings,
    echo: Callable[[str], None],
    reports: int | None = None,
    record: Path | None = None,
    opened: Callable[[], None] = lambda: None,
) -> None:
    """Serve the fabric of a run directory until Ctrl-C or SIGTERM; `echo` prints the page's address.

    `opened` is called when the first browser shows it.

    `reports` is a descriptor to read reports of training from, until its end, which is also the server's. With
    `record` everything is recorded, and written to that file at the end.

    Raises EndpointError, and ExperimentError when the fabric is taken down meanwhile.
    """
    check_listening(address, settings)
    token = new_token() if settings.token_file is None else read_token(settings.token_file)
    with watching(run) as watch:
        asyncio.run(_serve(run, address, token, _tls(settings), watch, echo, reports, record, opened))


async def _serve(
    run: RunDirectory,
    address: str,
    token: str,
    tls: ssl.SSLContext | None,
    watch: ProcessWatch,
    echo: Callable[[str], None],
    reports: int | None,
    record: Path | None,
    opened: Callable[[], None],
) -> None:
    loop = asyncio.get_running_loop()
    fabric = loader.load_file(run.fabric_file)
    feed = Feed(FabricLayout(fabric))
    recorder = None if record is None else Recorder(feed, record)
    host, port = split_address(address)
    clock = MachineClock.here()

    def connect() -> ControllerClient:
        return ControllerClient(run.controller_socket)

    readers = ThreadPoolExecutor(min(len(fabric.nics), _MAX_READERS) + 2, thread_name_prefix="reader")
    actor = ThreadPoolExecutor(1, thread_name_prefix="actor")
    jobs = Jobs(feed, run.host_socket, fabric.name)
    events = FabricEvents(feed, connect, loop, clock)
    with connect() as controller, contextlib.ExitStack() as stack:
        samplers = (
            LinkSampler(fabric, feed),
            SwitchSampler(fabric, feed, controller, switches.address_in_use(run), readers),
            PathSampler(fabric, feed, lambda name: str(run.host_socket(name)), readers, clock),
        )
        server = LiveServer(feed, Actions(fabric, feed, connect, jobs, actor), token, host, port, opened)
        stack.callback(events.stop)
        events.start()
        await events.ready()
        page = await _listen(server, address, tls)
        echo(f"fabric {fabric.name} is at {page}")
        watch.listen(events.crashed)
        tasks = [asyncio.create_task(sampler.run()) for sampler in samplers]
        tasks += [asyncio.create_task(feed.keep_history())]
        tasks += [asyncio.create_task(recorder.run())] if recorder is not None else []
        closed, farewell = False, "The server was stopped."
        try:
            closed = await _until_the_end(watch, tasks, feed, reports)
            farewell = _farewell(fabric.name, closed, reports is not None)
        finally:
            for task in tasks:
                task.cancel()
            if recorder is not None:
                recorder.close()
                echo(f"recorded: {record}")
            await jobs.close()
            await server.stop(farewell)
            readers.shutdown(wait=False, cancel_futures=True)
            actor.shutdown(wait=False, cancel_futures=True)
    if closed:
        raise ExperimentError(f"Fabric {fabric.name} was taken down.")


def _farewell(fabric: str, closed: bool, beside: bool) -> str:
    """What pages that are open are sent at the end."""
    if closed:
        return f"Fabric {fabric} was taken down."
    return "The command that brought the fabric up has ended." if beside else "The server was stopped."


async def _listen(server: LiveServer, address: str, tls: ssl.SSLContext | None) -> str:
    try:
        return await server.start(tls)
    except OSError as error:
        raise EndpointError(f"Cannot listen on {address}: {error.strerror or error}.") from None


async def _until_the_end(watch: ProcessWatch, tasks: list[asyncio.Task[None]], feed: Feed, reports: int | None) -> bool:
    """Wait for SIGTERM, the end of reports or of the fabric (True), or an error of a task, which is raised."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[bool] = loop.create_future()

    def end(closed: bool) -> None:
        if not ended.done():
            ended.set_result(closed)

    def failed(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and not ended.done() and (error := task.exception()) is not None:
            ended.set_exception(error)

    loop.add_signal_handler(signal.SIGTERM, end, False)
    if reports is not None:
        TrainingReports(feed, reports, lambda: end(False)).start()
    watch.listen_closed(lambda: _from_thread(loop, end))
    for task in tasks:
        task.add_done_callback(failed)
    return await ended


def _from_thread(loop: asyncio.AbstractEventLoop, end: Callable[[bool], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(end, True)


def _tls(settings: EndpointSettings) -> ssl.SSLContext | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        for file in (settings.tls_cert, settings.tls_key):  # OpenSSL would wait for a pipe
            named_files.read_bytes(file, MAX_KEY_FILE)
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise EndpointError(f"Certificate and key cannot be used: {error}.") from None
    return context
