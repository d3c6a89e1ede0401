"""Which core a world runs on: the native one (`simulation/core/native_core.c`) or the reference in Python.

The native core keeps the event queue, channels, hops through switches and what a NIC's node does for each frame in C.
It is compiled on first use and cached like the embedded switch. Events, traces and results are those of the reference,
which is `clock.py`, `channel.py`, `nodes.py` and `packet_engine.py` as they read: what is rare (links that delay or
reorder frames, captures) runs there in any case. ``MRC_SIMULATION_CORE=reference`` chooses the reference, ``native``
insists on the native core; without it the reference is used where no extension can be compiled (no C compiler, or no
Python headers).
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any

from mrc_common.c_build.errors import CBuildError
from mrc_common.c_build.extension import CModule
from mrc_host.nic import Nic
from p4runtime_shim.build import ENGINE_SOURCES
from p4runtime_shim.switch import EmbeddedSwitch
from simulation.channel import Channel
from simulation.clock import Clock, Handler
from simulation.errors import SimulationError
from simulation.hardware_timing import HardwareTiming
from simulation.nodes import NicNode, SwitchNode
from simulation.packet_engine import PacketEngine
from topologies.fabric import Fabric

VARIABLE = "MRC_SIMULATION_CORE"
MODULE = CModule("simulation.core.native_core", Path(__file__).parent / "core" / "native_core.c", (ENGINE_SOURCES,))

_CHOICES = ("native", "reference")
_MAX_NIC_PORTS = 62  # in a mask of the native core
_MAX_RATE = 1 << 62  # b/s
_MAX_DELAY = 1 << 60  # ns


class NativeCore:
    """The loaded extension: clocks, channels, nodes of NICs, and hops through switches for one world each."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.keep_memory: Callable[[bool], None] = module.keep_memory
        self.channel_class: type[Channel] = _channel_class(module.Channel)
        self.nic_node_class: type[NicNode] = _nic_node_class(module.NicNode, _engine_class(module.PacketEngine))

    def clock(self) -> Clock:
        """A clock, as :class:`simulation.clock.Clock`."""
        clock: Clock = self._module.Clock()
        return clock

    def hop(
        self,
        clock: Clock,
        switch: EmbeddedSwitch,
        channels: Mapping[int, Channel],
        copies: bool,
        pauses: bool,
        wake: Handler,
        go_on: Callable[[list[int]], None],
    ) -> Any:
        """What carries frames through `switch`, until its close().

        `copies`: sending may make other ports ready; `pauses`: it has priority flow control. `wake` handles events that
        the hop has scheduled once it is closed, `go_on` serves ports that were ready when it was closed in the middle.
        """
        verbs = (
            switch.native.hot.sw_dev_receive_frame,
            switch.native.hot.sw_dev_transmit_frame,
            switch.native.library.sw_dev_take_ready,
            switch.native.hot.sw_dev_set_owners,
            switch.native.hot.sw_prefetch,
            switch.native.hot.sw_dev_next_wakeup,
            switch.native.hot.sw_dev_tick,
        )
        addresses = (ctypes.cast(verb, ctypes.c_void_p).value for verb in verbs)
        return self._module.SwitchHop(
            clock, dict(channels), (switch.handle, *addresses), switch.queues.max_frame, copies, pauses, wake, go_on
        )

    def join(self, channel: Channel, sender: object, receiver: object) -> None:
        """Have the channel work with the native parts of the nodes at its ends."""
        ends: Any = channel
        ends._sender_end, ends._receiver_end = self._part_of(sender), self._part_of(receiver)

    def _part_of(self, node: object) -> Any:
        """What channels call in C; None if they call the node in Python."""
        if isinstance(node, (self._module.NicNode, self._module.PacketEngine)):
            return node
        return node.hop(self.hop) if isinstance(node, SwitchNode) else None


def core_for(fabric: Fabric, delay: int) -> NativeCore | None:
    """The core for a world of this fabric; None for the reference. Raises SimulationError if the choice is impossible.

    Rates and delays beyond 64-bit arithmetic need the reference.
    """
    chosen = os.environ.get(VARIABLE, "")
    if chosen not in ("", *_CHOICES):
        raise SimulationError(f"{VARIABLE} is {chosen!r}; set it to one of: {', '.join(_CHOICES)}.")
    delays = [delay, *(link.delay_ns or 0 for link in fabric.links)]
    if chosen == "reference" or max(link.rate_bps for link in fabric.links) >= _MAX_RATE or max(delays) >= _MAX_DELAY:
        return None
    core, problem = _load(os.environ.get("PATH", ""))
    if core is None and chosen == "native":
        raise SimulationError(f"{VARIABLE} is 'native', but the core cannot be compiled: {problem}.")
    return core


def look_again() -> None:
    """Forget why there was none: what it takes may have been installed."""
    _load.cache_clear()


@contextmanager
def frame_memory_kept() -> Iterator[None]:
    """Meanwhile what frames have left stays with the process, for whoever runs one world after another."""
    core, _ = _load(os.environ.get("PATH", ""))
    if core is None:
        yield
        return
    core.keep_memory(True)
    try:
        yield
    finally:
        core.keep_memory(False)


def unavailable() -> str:
    """Why there is no native core, in a few words; empty if there is."""
    return _load(os.environ.get("PATH", ""))[1]


@functools.cache
def _load(_path: str) -> tuple[NativeCore | None, str]:
    """The core, or why there is none; asked again only where another PATH may have a compiler."""
    try:
        return NativeCore(MODULE.load()), ""
    except (CBuildError, ImportError) as error:
        return None, str(error)


def _channel_class(base: Any) -> Any:
    """Channel with its hot state and `send` in C (`base`); all else is the reference's own code."""
    return _derive(base, Channel, ("send", "_schedule_arrival"), {"_hurry": _hurry})


def _engine_class(base: Any) -> Any:
    """PacketEngine with what each frame takes in C (`base`)."""
    return _derive(base, PacketEngine, ("receive", "_busy", "_occupy"), {"__init__": _make_engine})


def _nic_node_class(base: Any, engine: Any) -> Any:
    """NicNode with what each frame takes in C (`base`)."""
    return _derive(
        base, NicNode, ("receive", "ask", "poke", "_wake", "pull"), {"replace": _replace, "engine_class": engine}
    )


def _derive(base: Any, reference: type, in_c: tuple[str, ...], changed: Mapping[str, object]) -> Any:
    """A class that has the state and functions `in_c` from `base`, those `changed`, and all others of `reference`."""
    functions = {
        name: value for name, value in vars(reference).items() if isinstance(value, FunctionType) and name not in in_c
    }
    slots = tuple(name for name in vars(reference)["__slots__"] if not hasattr(base, name))
    return type(reference.__name__, (base,), {**functions, **changed, "__slots__": slots})


def _hurry(self: Any, rate: int) -> None:
    """As Channel._hurry; the events are found in the native queue."""
    left = self._free_at - self._clock.now
    saved = left - -(-left * self._rate // rate)
    if saved > 0:
        arrival = self._bring_forward(saved, self._not_before)
        if arrival is not None and arrival >= 0:
            self._last_arrival = arrival


def _make_engine(
    self: Any, clock: Clock, timing: HardwareTiming, deliver: Callable[[int, bytes], None], ask: Callable[[int], None]
) -> None:
    """As PacketEngine.__init__; the native part knows the times of its own accord."""
    PacketEngine.__init__(self, clock, timing, deliver, ask)
    self._packet, self._rate = min(timing.packet, _MAX_DELAY), min(timing.pcie_rate, _MAX_RATE)


def _replace(self: Any, nic: Nic) -> None:
    """As NicNode.replace; then the native part can ask all ports at once, and knows the NIC's news and its datapath.

    A class derived from Nic may send and announce in other ways, so it is asked as in the reference.
    """
    before = getattr(self, "nic", None)
    if before is not None and before.datapath is not None:
        before.datapath.outbox.settle()  # its packets go on, but its memory is the application's again
    NicNode.replace(self, nic)
    known = type(nic) is Nic
    ports = [channel.port for channel in self._channels]
    at_once = ports == sorted(set(ports)) and max(ports, default=0) < _MAX_NIC_PORTS
    self._own_transmit = self._transmit if known and at_once and not self._watchers else None
    self._nic_transmit, self._transmit_first = nic.transmit, nic.transmit_first
    self._has_news = nic.has_news if known else None
    if known and nic.datapath is not None:
        self._carry(nic.datapath.receiver, nic.datapath.carry_frame, nic.answer_due, nic.datapath.outbox)
    else:
        self._carry()
