"""Simulation: a fabric's NICs and switches, joined by channels, under one virtual clock.

`SimulatedWorld` builds every device from the Fabric value, writes the switches' static tables directly, and runs: to a
time, until nothing is left to do, or until a coroutine is done. Applications use the same verbs as on real hosts,
through `provider(name)`. Faults are in `faults`. All times are integer nanoseconds since the beginning of the world.

Everything random (NICs, switches, loss) derives from `seed`. Timers are fitted to the fabric's round trip (see
`transport_timers`), unless `transport` says otherwise.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from mrc_host import plugins
from mrc_host.config import TransportSettings
from mrc_host.nic import Nic
from mrc_host.transport.algorithms import Algorithm
from mrc_host.transport.trace import TraceSink
from mrc_host.verbs.context import Context
from mrc_host.verbs.local import LocalProvider
from mrc_host.verbs_types import QpAttributes
from p4runtime_shim.errors import SwitchError
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import EmbeddedSwitch
from p4runtime_shim.traffic_manager import PauseConfig, QueueConfig
from simulation.channel import ChannelShaper, ChannelStats
from simulation.core.native import Channel, Clock
from simulation.delayed_completions import DelayedCompletions
from simulation.errors import SimulationError
from simulation.faults import Faults
from simulation.garbage import seldom_collected
from simulation.hardware_timing import IDEAL, HardwareTiming
from simulation.nodes import NicNode, Node, SwitchNode
from simulation.rerouting import Rerouting
from simulation.seeds import derive
from simulation.trace import Trace
from simulation.transport_timers import FabricTiming, timing
from simulation.virtual_time_loop import VirtualTimeLoop
from simulation.write_entries import owner_names, write_entries
from topologies.entries import switch_entries
from topologies.errors import FabricError
from topologies.fabric import Fabric, LinkEnd, Switch
from topologies.fabric_checks import MAX_DELAY_NS
from topologies.faults.effect import PortShaping
from topologies.p4_program import P4Program, check_reroutes, fabric_program, with_tables
from topologies.paths import nic_config
from topologies.queues import ETHERNET_BYTES, MAX_SHARE
from topologies.round_trip import PathRoundTrips, base_round_trip

DEFAULT_DELAY = 1_000  # ns a link
_MAX_BUFFERS = 16_384  # packets a switch can hold

T = TypeVar("T")


class SimulatedWorld:
    """One world; use it in a `with` statement, or close() it, to free the switches.

    `rate` (b/s) replaces that of every link, `delay` is the propagation delay (ns) of those that have none of their
    own. `queues` configures the switches' traffic managers (default: what the fabric's queue profile needs).
    `transport` replaces the fitted transport settings. `congestion` gives every NIC more congestion controls, by the
    names that queue pairs and the transport settings may then say. `hardware` is what hosts, NICs and switches take,
    nothing by default. `trace` records what arrives where. `rerouting` has the reroutes of a fabric that does so.
    """

    def __init__(
        self,
        fabric: Fabric,
        *,
        seed: int,
        rate: int | None = None,
        delay: int = DEFAULT_DELAY,
        queues: QueueConfig | None = None,
        transport: TransportSettings | None = None,
        congestion: Mapping[str, Algorithm] | None = None,
        hardware: HardwareTiming = IDEAL,
        pipeline: Pipeline | None = None,
        trace: Trace | None = None,
    ) -> None:
        if rate is not None:
            fabric = replace(fabric, links=tuple(replace(link, rate_bps=rate) for link in fabric.links))
        if not 0 <= delay <= MAX_DELAY_NS:
            raise SimulationError(f"A link's delay is 0 to {MAX_DELAY_NS} ns, not {delay} ns.")
        if fabric.queues.pfc:
            fabric = with_headroom(fabric, delay, hardware.longest_link)
        self._queues = queues or default_queues(fabric)
        self._congestion = congestion
        for plugin in (transport or fabric.settings.transport).plugins:
            plugins.load(plugin)
        self.hardware = hardware
        frames = self._queues.max_packets or self._queues.buffer_packets
        self.timing: FabricTiming = timing(fabric, delay, frames, hardware)
        fitted = transport or self.timing.transport(fabric.settings.transport)
        self.fabric = fabric.with_settings(replace(fabric.settings, transport=fitted))
        waiting = self.timing.round_trip - base_round_trip(fabric, delay)
        same = fitted.base_rtt == self.timing.round_trip
        self._round_trips = PathRoundTrips(fabric, delay, waiting) if same else None
        self._timers_of = self.timing.timers_of(fitted)
        self.seed = seed
        self.clock = Clock()
        self.trace = trace
        self._loop = VirtualTimeLoop(self.clock)
        self._closed = False
        self._providers: dict[str, LocalProvider] = {}
        self._channels: dict[LinkEnd, Channel] = {}  # by the end they leave
        self._shaper = ChannelShaper(derive(seed, "line"))
        self._nics: dict[str, NicNode] = {}
        self._trace_sinks: Mapping[str, TraceSink] = {}
        self._restarts: Counter[str] = Counter()
        self._switches: dict[str, SwitchNode] = {}
        self._nic_names = frozenset(nic.name for nic in fabric.nics)
        with seldom_collected():
            self._make_channels(delay)
            self._make_nics()
            self._make_switches(pipeline)
            self._join()
        after = fabric.reroute_ns
        self.rerouting = None if after is None else Rerouting(self.fabric, self.clock, self.switch, after)
        self.faults = Faults(self)

    # ---- building -----------------------------------------------------------------------------------------------

    def _make_channels(self, delay: int) -> None:
        for link in self.fabric.links:
            for source, target, mark in ((link.lower, link.upper, ">"), (link.upper, link.lower, "<")):
                own = delay if link.delay_ns is None else link.delay_ns
                name, takes = f"{link.name}{mark}", own + self._pipelines(source, target)
                self._channels[source] = Channel(self.clock, name, source, target, link.rate_bps, takes)

    def _pipelines(self, source: LinkEnd, target: LinkEnd) -> int:
        """What a packet takes through the sending NIC and the receiving device, in ns, besides the link."""
        nics, hardware = self._nic_names, self.hardware
        begins = hardware.transmit if source.node in nics else 0
        return begins + (hardware.receive if target.node in nics else hardware.switch)

    def _make_nics(self) -> None:
        for nic in self.fabric.nics:
            device = self._make_nic(nic.name, derive(self.seed, "nic", nic.name))
            channels = [self._channels[link.lower] for link in self.fabric.links_of(nic.name)]
            self._nics[nic.name] = NicNode(self.clock, nic.name, device, channels, self.hardware)

    def _make_nic(self, name: str, seed: int) -> Nic:
        """A NIC; ports that no link is plugged into have no carrier."""
        described = self.fabric.nic(name)
        config = nic_config(self.fabric, described, self._round_trips, self._timers_of)
        nic = Nic(config, seed=seed, congestion=self._congestion)
        for plane in range(self.fabric.planes):
            if self.fabric.nic_link(described, plane) is None:
                nic.port_changed(plane, False, self.clock.now)
        return nic

    def _make_switches(self, pipeline: Pipeline | None) -> None:
        program = pipeline or load_program()
        tables = owner_names(program)
        try:
            check_reroutes(self.fabric, tables)
        except FabricError as error:
            raise SimulationError(f"{str(error)[0].upper()}{str(error)[1:]}.") from None
        for description in self.fabric.switches:
            name = description.name
            switch = EmbeddedSwitch(
                program,
                device_id=description.device_id,
                ports=description.ports,
                seed=derive(self.seed, "switch", name),
                queues=self._queues,
            )
            write_entries(switch, with_tables(switch_entries(self.fabric, description), tables))
            channels = {port: self._channels[LinkEnd(name, port)] for port in description.ports}
            if self.fabric.queues.pfc:
                for port, config in pauses(self.fabric, description).items():
                    switch.set_pause(port, config)
            self._switches[name] = SwitchNode(self.clock, name, switch, channels, self.fabric.queues.pfc)

    def _join(self) -> None:
        nodes: dict[str, Node] = {**self._nics, **self._switches}
        number = {name: position for position, name in enumerate(nodes)}
        if self.trace is not None:
            self.trace.start(tuple(nodes))
        traced = None if self.trace is None else self.trace.frame
        for channel in self._channels.values():
            source, target = channel.source.node, channel.target.node
            channel.join(nodes[source].ports, nodes[target].ports, number[target], traced)

    # ---- looking ------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The time, in ns since the beginning."""
        return self.clock.now

    @property
    def loop(self) -> VirtualTimeLoop:
        """The asyncio loop of this world's applications."""
        return self._loop

    def nic(self, name: str) -> Nic:
        """The NIC device of a host. After a command to it, rather than through a provider, call :meth:`poke`."""
        return self.nic_node(name).nic

    def switch(self, name: str) -> EmbeddedSwitch:
        """A switch device."""
        self.fabric.switch(name)
        return self._switches[name].switch

    def channel(self, source: LinkEnd) -> Channel:
        """The direction of a link that leaves `source`."""
        if source not in self._channels:
            raise SimulationError(f"No link is plugged into port {source.port} of {source.node}.")
        return self._channels[source]

    def shape(self, source: LinkEnd, shape: PortShaping) -> None:
        """From now on what leaves `source` is shaped like this, until faults that shape it come or go."""
        self._shaper.shape(self.channel(source), shape)

    def node(self, name: str) -> Node:
        """A device by name, as channels and faults see it."""
        return self._switches[name] if name in self._switches else self.nic_node(name)

    def link_stats(self, name: str) -> tuple[ChannelStats, ChannelStats]:
        """Counters of a link: towards the upper end, and towards the lower end.

        What a fault loses or corrupts counts, too, in whichever switch at an end; towards a NIC it is lost before it
        is sent, and is not among the frames.
        """
        link = self.fabric.link(name)
        return self._stats(link.lower), self._stats(link.upper)

    def _stats(self, source: LinkEnd) -> ChannelStats:
        channel, counts = self._channels[source], self.faults.counts
        (lost,), corrupted = counts.lost((channel,)), counts.corrupted(channel)
        return ChannelStats(channel.frames, channel.bytes, lost, corrupted, channel.reordered)

    def attributes(self, base: QpAttributes | None = None, ends: tuple[str, str] | None = None) -> QpAttributes:
        """Queue pair attributes with timers that fit this world, or only the hosts `ends` that it connects."""
        trips = self._round_trips
        if ends is None or trips is None or not trips.varied:
            return self.timing.attributes(base)
        near, far = map(self.fabric.nic, ends)
        return self.timing.attributes(base, trips.of(near, far))

    def nic_node(self, name: str) -> NicNode:
        """A NIC with the channels that leave it."""
        self.fabric.nic(name)
        return self._nics[name]

    # ---- using --------------------------------------------------------------------------------------------------

    def provider(self, name: str) -> LocalProvider:
        """Verbs on a host's NIC: give it to `mrc_host.verbs.Context`. One provider a NIC, however often asked."""
        node = self.nic_node(name)
        if name not in self._providers:
            provider = self._make_provider(name, node)
            node.announce = provider.dispatch
            self._providers[name] = provider
        return self._providers[name]

    def _make_provider(self, name: str, node: NicNode) -> LocalProvider:
        poke, advance = functools.partial(self.poke, name), functools.partial(self._advance, name)
        if not self.hardware.delays_completions:
            return LocalProvider(node.nic, lambda: self.clock.now, poke=poke, advance=advance)

        def announce() -> None:
            if node.announce is not None:
                node.announce()

        return DelayedCompletions(node.nic, self.clock, self.hardware, poke=poke, advance=advance, announce=announce)

    def open(self, name: str) -> Context:
        """A verbs context on a host's NIC."""
        return Context(self.provider(name))

    def restart_nic(self, name: str) -> None:
        """Restart a NIC as after a crash: it knows only its configuration and which of its ports have carrier.

        Its peers are not notified. Contexts opened before are useless from now on and are not notified either.
        """
        node = self.nic_node(name)
        self._restarts[name] += 1
        seed = derive(self.seed, "nic", name, self._restarts[name])
        node.replace(self._make_nic(name, seed))
        node.nic.set_trace(self._trace_sinks.get(name))
        self._providers.pop(name, None)
        for link in self.fabric.links_of(name):
            if not self.faults.has_carrier(link.name):
                node.port_changed(link.lower.port, False)

    def trace_nics(self, sinks: Mapping[str, TraceSink]) -> None:
        """Send the event traces of NICs (docs/trace.md) to `sinks`, by host, from now on; those of others end."""
        self._trace_sinks = sinks
        for name, node in self._nics.items():
            node.nic.set_trace(sinks.get(name))

    def poke(self, name: str) -> None:
        """Look at a NIC again after a command given to the device itself."""
        self.nic_node(name).poke()

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a coroutine; it makes progress whenever the world runs. SimulationError when the world is closed."""
        if self._closed:
            coroutine.close()
        self._check_open()
        return self._loop.create_task(coroutine)

    def run(self, until: int | Coroutine[Any, Any, T] | asyncio.Future[T] | None = None) -> T | None:
        """Let time pass: up to a time (ns), until a coroutine or task is done (returns its result), or until rest.

        Rest means that no event is left: every frame has arrived and no device has anything due. With a fault
        that comes and goes without an end there is no rest, which is a FaultError. A coroutine that can never end
        raises StalledError. Coroutines started with :meth:`spawn` go on in any case; an exception of theirs is raised
        where they are awaited. SimulationError when the world is closed.
        """
        if self._closed and isinstance(until, Coroutine):
            until.close()
        self._check_open()
        with seldom_collected():
            if until is None:
                with self.faults.rest_expected():
                    self._loop.run_to_rest()
            elif isinstance(until, int):
                if until < self.now:
                    raise SimulationError(f"It is {self.now} ns already; the world cannot run to {until} ns.")
                self._loop.run_to_time(until)
            else:
                task = until if isinstance(until, asyncio.Future) else self._loop.create_task(until)
                return self._loop.run_task(task)
        return None

    def _advance(self, name: str, deadline: int | None) -> bool:
        """Run until the NIC has something to report or `deadline` has come (see `mrc_host.verbs.local`)."""
        self._check_open()
        node, provider = self._nics[name], self._providers[name]

        def announce() -> None:
            if provider.dispatch():
                self.clock.stop()

        node.announce = announce
        try:
            return self.clock.run(deadline) or deadline is not None
        finally:
            node.announce = provider.dispatch

    def _check_open(self) -> None:
        if self._closed:
            raise SimulationError("The world is closed: no time passes in it any more.")

    def close(self) -> None:
        """Cancel every coroutine and free the switches; afterwards only counters can be read from the Python side.

        SimulationError while the world runs, as from within a coroutine of its own.
        """
        if self._closed:
            return
        if self._loop.is_running() or self.clock.running:
            raise SimulationError("The world runs: close it when `run` has ended.")
        if not self._loop.is_closed():
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self._loop.run_task(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
        self.faults.close(self._channels.values())
        for node in self._switches.values():
            node.switch.close()
        self._closed = True

    def __enter__(self) -> SimulatedWorld:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def default_queues(fabric: Fabric) -> QueueConfig:
    """Traffic managers with room for what the fabric's queue profile allows, so that the P4 program decides."""
    fastest = max(link.rate_bps for link in fabric.links)
    ports = max(len(switch.ports) for switch in fabric.switches)
    packets = fabric.queues.queue_frames(fastest, fabric.mtu, ports)
    # Under flow control all queues together hold no more than one may.
    buffers = 2 * packets if fabric.queues.pfc else min(_MAX_BUFFERS, 2 * packets * ports)
    return QueueConfig(max_packets=packets, buffer_packets=buffers, max_frame=fabric.mtu + 64)


def pauses(fabric: Fabric, switch: Switch) -> dict[int, PauseConfig]:
    """Flow control of each port of a switch."""
    profile = fabric.queues

    def size(share: int, rate: int) -> int:
        return profile.bytes_at(share, rate, fabric.mtu)

    rates = {port: link.rate_bps for port in switch.ports if (link := fabric.link_at(LinkEnd(switch.name, port)))}
    return {
        port: PauseConfig(
            rate, size(profile.pfc_xoff, rate), size(profile.pfc_xon, rate), size(profile.pfc_headroom, rate)
        )
        for port, rate in rates.items()
    }


def with_headroom(fabric: Fabric, delay: int, pipelines: int = 0) -> Fabric:
    """The fabric with enough headroom of flow control for its links, of `delay` ns unless they say otherwise.

    Until a neighbour is silent there arrives what is on the link both ways, in the devices (`pipelines`, ns for each
    link), and on both sides a frame that was begun. SimulationError where a profile cannot say so much.
    """
    profile, share = fabric.queues, fabric.queues.pfc_headroom
    own = {(link.rate_bps, delay if link.delay_ns is None else link.delay_ns) for link in fabric.links}
    for rate, latency in own:
        least = 2 * (latency + pipelines) * rate // 8_000_000_000 + 3 * (fabric.mtu + ETHERNET_BYTES)
        share = max(share, -(-100 * least // profile.product(rate, fabric.mtu)))
        if share > MAX_SHARE:
            raise SimulationError(
                f"Flow control on a link of {rate} b/s and {latency} ns needs room for {least} bytes in a queue, more"
                f" than {MAX_SHARE} % of what the queue profile counts for it: choose a shorter delay, a higher"
                " `base_rtt_ns` of `queues`, or no `pfc`."
            )
    return replace(fabric, queues=replace(profile, pfc_headroom=share))


def load_program(program: P4Program | None = None) -> Pipeline:
    """The fabric's P4 program, or another, loaded once a process (and its C code compiled once a machine).

    SimulationError when the fabric's own has mistakes, or the switch cannot run it.
    """
    try:
        chosen = fabric_program() if program is None else program
    except FabricError as error:
        raise SimulationError(str(error)) from None
    try:
        return _pipeline(chosen.json)
    except SwitchError as error:
        raise SimulationError(f"{chosen.name} cannot be loaded: {error}") from None


@functools.lru_cache(maxsize=16)
def _pipeline(text: str) -> Pipeline:
    return Pipeline.load(text)


def switch_drops(world: SimulatedWorld) -> Mapping[str, int]:
    """Frames that switches dropped, by reason, over all of them."""
    total: dict[str, int] = {}
    for description in world.fabric.switches:
        for reason, count in world.switch(description.name).stats().drops.items():
            total[reason] = total.get(reason, 0) + count
    return total
