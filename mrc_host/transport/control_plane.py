"""The controller's interface to a NIC: profiles, denylist, probes, ports, destinations (docs/protocol.md §11).

These commands change what all queue pairs may do, or inspect the fabric; none applies to a single queue pair. Their
effects are reported as ordinary asynchronous events. Each applies to the whole NIC, whichever controller issued it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mrc_host.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError, StateError
from mrc_host.path_probes import ProbePlan, ProbeReport
from mrc_host.transport.algorithms import derived
from mrc_host.transport.nic_context import NicContext
from mrc_host.transport.path_prober import PathProber
from mrc_host.transport.peer import Peer
from mrc_host.transport.peer_table import PeerTable
from mrc_host.transport.profiles import check_profile
from mrc_host.verbs_types import CcProfile, DeniedPath, DestinationInfo, EvProfile, PortState

PROBE_TIMEOUT: Final = 1_000_000_000
_MAX_PROFILES: Final = 4096
_MAX_NAME: Final = 64
_MAX_TIMEOUT: Final = 60_000_000_000


class NicControlPlane:
    """Commands of a controller. All times are integer nanoseconds of the NIC's clock."""

    def __init__(self, nic: NicContext, peers: PeerTable, profile_used: Callable[[int | str], bool]) -> None:
        self._nic = nic
        self._peers = peers
        self._profile_used = profile_used
        self._next_profile = 1
        self._next_probe = 1
        self.prober = PathProber(nic)

    # ---- EV profiles --------------------------------------------------------------------------------------------

    def create_ev_profile(self, profile: EvProfile) -> int:
        """Add a profile; returns its number (1 or more) for ``QpAttributes.ev_profile``.

        InvalidArgumentError says what is wrong with it; ResourceExhaustedError when 4096 exist. Whether it has any path
        to a peer is known only when a queue pair with it goes to RTS.
        """
        while self._next_profile in self._nic.ev_profiles:
            self._next_profile += 1
        number = self._next_profile
        self.add_ev_profile(number, profile)
        self._next_profile += 1
        return number

    def add_ev_profile(self, number: int, profile: EvProfile) -> None:
        """Add a profile under a number of the caller's choice, which no other has; errors as above."""
        check_profile(profile)
        if len(self._nic.ev_profiles) >= _MAX_PROFILES:
            raise ResourceExhaustedError(f"{_MAX_PROFILES} EV profiles exist already; destroy some.")
        if number in self._nic.ev_profiles:
            raise InvalidArgumentError(f"There is an EV profile {number} already.")
        self._nic.ev_profiles[number] = profile

    def destroy_ev_profile(self, number: int) -> None:
        """Remove a profile. NotFoundError; StateError while a queue pair uses it."""
        if number not in self._nic.ev_profiles:
            raise NotFoundError(f"There is no EV profile {number}.")
        if self._profile_used(number):
            raise StateError(f"EV profile {number} is still used by a queue pair; destroy that first.")
        del self._nic.ev_profiles[number]

    def ev_profiles(self) -> dict[int, EvProfile]:
        """All profiles by number. Number 0 (AUTO, with every entropy value of the NIC) is not among them."""
        return dict(self._nic.ev_profiles)

    # ---- CC profiles --------------------------------------------------------------------------------------------

    def create_cc_profile(self, name: str, profile: CcProfile) -> None:
        """Add a congestion control with its own constants under `name`, for ``QpAttributes.cc_profile``.

        InvalidArgumentError when the name is taken or does not have 1 to 64 characters, or a constant is out of range;
        ResourceExhaustedError when 4096 exist.
        """
        known = self._nic.algorithms
        if not 1 <= len(name) <= _MAX_NAME:
            raise InvalidArgumentError(f"The name of a CC profile has 1 to {_MAX_NAME} characters.")
        if name in known:
            raise InvalidArgumentError(f"There is a congestion control {name!r} already: choose another name.")
        if len(self._nic.cc_profiles) >= _MAX_PROFILES:
            raise ResourceExhaustedError(f"{_MAX_PROFILES} CC profiles exist already; destroy some.")
        known[name] = derived(known, profile, self._nic.transport)
        self._nic.cc_profiles[name] = profile

    def destroy_cc_profile(self, name: str) -> None:
        """Remove a profile. NotFoundError; StateError while a queue pair uses it."""
        if name not in self._nic.cc_profiles:
            raise NotFoundError(f"There is no CC profile {name!r}.")
        if self._profile_used(name):
            raise StateError(f"CC profile {name!r} is still used by a queue pair; destroy that first.")
        del self._nic.cc_profiles[name], self._nic.algorithms[name]

    def cc_profiles(self) -> dict[str, CcProfile]:
        """All profiles by name, without the NIC's built-in congestion controls."""
        return dict(self._nic.cc_profiles)

    # ---- paths --------------------------------------------------------------------------------------------------

    def set_path_denied(self, peer: bytes, ev: int, denied: bool, now: int) -> None:
        """Take a path to the NIC with address `peer` out of use on every present and future queue pair.

        With `denied` False it may be used again. NotFoundError when no path to that peer has this `ev`. Where several
        entropy values share the path, any of them names it.
        """
        known, index = self._path(peer, ev)
        self._begin(now)
        known.deny(index, denied, now)

    def first_ev(self, peer: bytes, ev: int) -> int:
        """The first entropy value of the path that takes packets with `ev`; NotFoundError."""
        known, index = self._path(peer, ev)
        return known.paths.evs[index]

    def denied_paths(self) -> tuple[DeniedPath, ...]:
        """The denylist: of each path its first entropy value."""
        return tuple(DeniedPath(p.address, p.paths.evs[index]) for p in self._peers.made() for index in p.paths.denied)

    def probe(self, peer: bytes, ev: int, now: int, timeout: int = PROBE_TIMEOUT) -> int:
        """Send an endpoint probe (EV_PROBE) on one path; returns the number that its ProbeEvent will carry.

        The event is raised when the answer arrives, or after `timeout` (1 ns to 60 s) without one. The path's state
        does not matter, and a probe that times out does not change it. NotFoundError when there is no such path;
        ResourceExhaustedError while 1024 probes to this peer are in flight.
        """
        if not 1 <= timeout <= _MAX_TIMEOUT:
            raise InvalidArgumentError(f"A probe's timeout is 1 to {_MAX_TIMEOUT} ns, not {timeout}.")
        known, index = self._path(peer, ev)
        self._begin(now)
        number = self._next_probe
        known.probes.ping(index, number, timeout, now)
        self._next_probe += 1
        return number

    # ---- path mapping (docs/path-mapping.md) ----------------------------------------------------------------------

    def start_probing(self, plan: ProbePlan, now: int) -> None:
        """Send path probes by `plan`, replacing any other, until stopped; InvalidArgumentError."""
        self._begin(now)
        self.prober.start(plan, now)

    def stop_probing(self) -> None:
        """Send no more path probes, and discard what was counted."""
        self.prober.stop()

    def probe_report(self) -> ProbeReport:
        """Path probes sent, and those of any NIC that arrived, since the last report."""
        return self.prober.report()

    # ---- inspection ---------------------------------------------------------------------------------------------

    def port_states(self, peer: bytes | None = None) -> tuple[PortState, ...]:
        """Our ports, or those of `peer` as last reported (up, if it never reported them). NotFoundError."""
        if peer is None:
            up = self._nic.local_up
            return tuple(PortState(p.plane, bool(up >> p.plane & 1), True, p.rate_bps) for p in self._nic.config.ports)
        known = self._peer(peer)
        return tuple(
            PortState(plane, bool(known.planes.ports_up >> plane & 1), False)
            for plane, members in enumerate(known.paths.members)
            if members
        )

    def destinations(self) -> tuple[DestinationInfo, ...]:
        """Every NIC to which this one has paths."""
        return self._peers.infos()

    def _peer(self, address: bytes) -> Peer:
        known = self._peers.get(address)
        if known is None:
            raise NotFoundError(f"This NIC knows no NIC with address {address.hex(':', 2)}.")
        return known

    def _path(self, address: bytes, ev: int) -> tuple[Peer, int]:
        known = self._peer(address)
        index = known.paths.values.path(ev)
        if index < 0:
            raise NotFoundError(f"There is no path with entropy value {ev:#x} to {known.destination.name}.")
        return known, index

    def _begin(self, now: int) -> None:
        self._nic.now = now
        self._nic.scheduler.input_begins()
