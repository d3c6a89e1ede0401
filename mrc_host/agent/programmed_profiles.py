"""Profiles that a controller programs by the OCP's MRC API (docs/applications.md).

Each has the number that the controller gives it, and goes from INIT through OFFLINE to ONLINE and back. One that goes
ONLINE becomes one of the NIC's: an EV profile under its number, a CC profile under its number as a name. OFFLINE takes
it away again, which a queue pair that uses it prevents (StateError). Whatever is wrong with a change is
InvalidArgumentError, and then nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from mrc_host.config import EvFormat
from mrc_host.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError, StateError
from mrc_host.transport.profiles import MAX_PATHS, generates
from mrc_host.verbs.remote.profile_values import (
    CcProfileChange,
    ControlLimits,
    EvFormatChange,
    EvFormatMode,
    EvFormatProfile,
    EvProfileChange,
    EvReplacement,
    PortedEv,
    ProfileState,
    ProgrammedCcProfile,
    ProgrammedEv,
    ProgrammedEvProfile,
    ProgrammedField,
)
from mrc_host.verbs_types import CcProfile, EvField, EvMode, EvProfile, PathState

if TYPE_CHECKING:
    from mrc_host.nic import Nic

MAX_PROFILES: Final = 4096  # of each kind
MAX_NUMBER: Final = 1 << 31  # of an EV profile, as queue pairs name it
_MAX_BITS: Final = 32  # of an entropy value

_MODES = {
    EvFormat.SRV6: EvFormatMode.SRV6,
    EvFormat.SRV6_SRH: EvFormatMode.SRV6,
    EvFormat.STRUCTURED: EvFormatMode.STRUCTURED,
    EvFormat.UDP: EvFormatMode.UDP,
}
_STEPS = {
    (ProfileState.INIT, ProfileState.OFFLINE),
    (ProfileState.OFFLINE, ProfileState.ONLINE),
    (ProfileState.ONLINE, ProfileState.OFFLINE),
    (ProfileState.OFFLINE, ProfileState.INIT),
}

P = TypeVar("P", EvFormatProfile, ProgrammedEvProfile, ProgrammedCcProfile)


class ProgrammedProfiles:
    """The profiles programmed on `nic`. `deny(peer, ev, denied)` takes a path out of use, or allows it.

    `qpns` gives the numbers of all queue pairs.
    """

    def __init__(self, nic: Nic, deny: Callable[[bytes, int, bool], None], qpns: Callable[[], Iterable[int]]) -> None:
        self._nic = nic
        self._qpns = qpns
        self._deny = deny
        self._formats: dict[int, EvFormatProfile] = {}
        self._evs: dict[int, ProgrammedEvProfile] = {}
        self._ccs: dict[int, ProgrammedCcProfile] = {}

    def limits(self) -> ControlLimits:
        """What may be programmed."""
        in_use = sum(profile.count for profile in self._evs.values())
        return ControlLimits(self._mode, len(self._nic.config.ports), MAX_PROFILES, MAX_PATHS, in_use)

    # ---- EV format profiles -------------------------------------------------------------------------------------

    def ev_format(self, number: int) -> EvFormatProfile:
        """An EV format profile; in INIT if nobody has configured it."""
        return self._formats.get(number, EvFormatProfile())

    def modify_ev_format(self, number: int, change: EvFormatChange) -> None:
        """Change an EV format profile; StateError while an EV profile that uses it is ONLINE."""
        before = self.ev_format(number)
        to = _next_state(before.state, change.current, change.state)
        if before.state is ProfileState.ONLINE:
            _refuse_online(change.mode, change.widths)
            users = (one for one in self._evs.values() if one.ev_format == number)
            if any(user.state is ProfileState.ONLINE for user in users):
                raise StateError(f"EV format profile {number} is used by an EV profile that is online.")
        after = replace(
            before,
            state=to,
            mode=before.mode if change.mode is None else change.mode,
            widths=before.widths if change.widths is None else change.widths,
        )
        if to is not ProfileState.INIT and after.mode is not self._mode:
            raise InvalidArgumentError(f"The entropy values of this NIC have the format {self._mode.value!r}.")
        if any(width < 1 for width in after.widths) or sum(after.widths) > _MAX_BITS:
            raise InvalidArgumentError(f"Fields have 1 bit or more, and {_MAX_BITS} together at most.")
        if to is ProfileState.ONLINE and not after.widths:
            raise InvalidArgumentError("An EV format profile needs fields before it can be online.")
        _keep(self._formats, number, after)

    @property
    def _mode(self) -> EvFormatMode:
        return _MODES[self._nic.config.settings.ev_format]

    # ---- EV profiles --------------------------------------------------------------------------------------------

    def ev_profile(self, number: int) -> ProgrammedEvProfile:
        """An EV profile; in INIT if nobody has configured it. Number 0 is the NIC's default."""
        if number == 0:
            return ProgrammedEvProfile(ProfileState.ONLINE, EvMode.AUTO, min_active=1)
        return self._evs.get(number, ProgrammedEvProfile())

    def modify_ev_profile(self, number: int, change: EvProfileChange) -> None:
        """Change an EV profile; StateError if it would go offline while a queue pair uses it."""
        if not 1 <= number <= MAX_NUMBER:
            raise InvalidArgumentError(f"EV profiles have the numbers 1 to {MAX_NUMBER}, not {number}.")
        before = self.ev_profile(number)
        to = _next_state(before.state, change.current, change.state)
        if before.state is ProfileState.ONLINE:
            _refuse_online(change.mode, change.ev_format, change.count, change.min_active, change.fields)
        after = _changed(before, change, to)
        if to is not ProfileState.INIT:
            self._check(after)
        if to is not before.state and to is ProfileState.ONLINE:
            self._nic.control.add_ev_profile(number, self._made_from(after))
        elif before.state is ProfileState.ONLINE and to is ProfileState.OFFLINE:
            self._nic.control.destroy_ev_profile(number)
        _keep(self._evs, number, after)

    def _check(self, profile: ProgrammedEvProfile) -> None:
        explicit, generated = profile.mode is EvMode.EXPLICIT, profile.mode is EvMode.GENERATED
        if profile.mode is None or ((explicit or generated) and not 1 <= profile.count <= MAX_PATHS):
            raise InvalidArgumentError(
                f"An EV profile needs a mode and, unless that is AUTO, a count of 1 to {MAX_PATHS}."
            )
        if profile.count > MAX_PATHS or (profile.count and profile.min_active > profile.count):
            raise InvalidArgumentError("min_active is at most the profile's count.")
        if bool(profile.fields) and not generated:
            raise InvalidArgumentError("Only generated EV profiles have fields.")
        if not set(profile.events) <= {PathState.GOOD, PathState.ASSUMED_BAD}:
            raise InvalidArgumentError("Events are of the states GOOD and ASSUMED_BAD.")
        if explicit or generated:
            if profile.ev_format is None or self.ev_format(profile.ev_format).state is not ProfileState.ONLINE:
                raise InvalidArgumentError("An EV profile that is not AUTO needs an EV format profile that is online.")
            ev_fields(profile.fields, self.ev_format(profile.ev_format).widths)

    def _made_from(self, profile: ProgrammedEvProfile) -> EvProfile:
        """The NIC's profile; InvalidArgumentError if the programmed one is not complete."""
        floor = max(1, profile.min_active)
        if profile.mode is EvMode.EXPLICIT:
            if None in profile.evs:
                raise InvalidArgumentError("Each entry of an explicit EV profile must be replaced by an entropy value.")
            different = tuple(dict.fromkeys(ev for ev in profile.evs if ev is not None))
            return EvProfile(EvMode.EXPLICIT, evs=different, ev_min_active=floor)
        if profile.mode is EvMode.GENERATED:
            if not profile.fields:
                raise InvalidArgumentError("A generated EV profile needs fields.")
            return EvProfile(EvMode.GENERATED, fields=self._fields_of(profile), size=profile.count, ev_min_active=floor)
        return EvProfile(size=profile.count or None, ev_min_active=floor)

    def _fields_of(self, profile: ProgrammedEvProfile) -> tuple[EvField, ...]:
        return ev_fields(profile.fields, self.ev_format(profile.ev_format or 0).widths)

    # ---- entropy values of EV profiles ----------------------------------------------------------------------------

    def replace_evs(self, number: int, replacements: Iterable[EvReplacement]) -> None:
        """Set entries of an explicit EV profile that is offline, one after the other; NotFoundError for one not there.

        Those before one that fails have been set.
        """
        for one in replacements:
            profile = self._evs.get(number)
            if profile is None or profile.state is not ProfileState.OFFLINE or profile.mode is not EvMode.EXPLICIT:
                raise InvalidArgumentError("Entropy values can be replaced in explicit EV profiles that are offline.")
            self._check_ev(one.new, sum(self.ev_format(profile.ev_format or 0).widths))
            if one.old not in profile.evs:
                raise NotFoundError("The EV profile does not have the entropy value that is to be replaced.")
            evs = list(profile.evs)
            if one.all_copies:
                evs = [one.new.ev if ev == one.old else ev for ev in evs]
            else:
                evs[evs.index(one.old)] = one.new.ev
            self._evs[number] = replace(profile, evs=tuple(evs))

    def _check_ev(self, new: PortedEv, bits: int) -> None:
        if not 0 <= new.ev < 1 << bits:
            raise InvalidArgumentError(f"The entropy value does not fit the {bits} bits of the EV profile's format.")
        if not 0 <= new.port < len(self._nic.config.ports):
            raise InvalidArgumentError("The NIC has no such port.")
        port = self._port_of(new.ev)
        if port is not None and port != new.port:
            raise InvalidArgumentError(f"Entropy value {new.ev:#x} leaves by port {port}, not {new.port}.")

    def deny_ev(self, number: int, ev: int, denied: bool) -> None:
        """Deny an entropy value of a profile to all destinations, or allow it; NotFoundError if it leads nowhere."""
        if ev not in (self._entries(number) or ()):
            raise NotFoundError(f"EV profile {number} has no entropy value {ev:#x}.")
        peers = [one.address for one in self._nic.control.destinations() if ev in one.all_evs()]
        if not peers:
            raise NotFoundError(f"No destination is reached by entropy value {ev:#x}.")
        for peer in peers:
            self._deny(peer, ev, denied)

    def evs_of(self, number: int, evs: Sequence[int] | None = None) -> tuple[ProgrammedEv, ...]:
        """The entries of an EV profile with their states, or of the `evs` given; NotFoundError for one not there."""
        entries = self._entries(number)
        if entries is None:
            raise InvalidArgumentError(f"EV profile {number} is not configured.")
        unknown = [ev for ev in evs or () if ev not in entries]
        if unknown:
            raise NotFoundError(f"EV profile {number} has no entropy value {unknown[0]:#x}.")
        bad, denied = self._bad(number), {one.ev for one in self._nic.control.denied_paths()}
        ports: dict[int | None, int] = {}
        firsts: dict[int, int] = {}  # the state is that of the path
        for one in self._nic.control.destinations():
            ports.update(zip(one.evs, one.planes, strict=True))
            firsts.update(one.all_evs())

        def state(ev: int | None) -> PathState:
            if ev in denied:
                return PathState.DENIED
            return PathState.ASSUMED_BAD if ev in bad else PathState.GOOD

        chosen = [(ev, None if ev is None else firsts.get(ev, ev)) for ev in (entries if evs is None else evs)]
        return tuple(ProgrammedEv(ev, ports.get(first), state(first)) for ev, first in chosen)

    def _entries(self, number: int) -> tuple[int | None, ...] | None:
        """The entropy values of a profile: the list of an explicit one; else those in use, or those it may use."""
        profile = self.ev_profile(number)
        if profile.state is ProfileState.INIT:
            return None
        if profile.mode is EvMode.EXPLICIT:
            return profile.evs
        used = {ev for qpn in self._users(number) for path in self._nic.qp_paths(qpn) for ev in path.evs or (path.ev,)}
        known = {ev for one in self._nic.control.destinations() for ev in one.all_evs()}
        if profile.mode is EvMode.GENERATED:
            made = EvProfile(EvMode.GENERATED, fields=self._fields_of(profile))
            known = {ev for ev in known if generates(made, ev)}
        return tuple(sorted(used or known)[: profile.count or MAX_PATHS])

    def _users(self, number: int) -> list[int]:
        return [qpn for qpn in self._qpns() if self._nic.query_qp(qpn).attributes.ev_profile == number]

    def _bad(self, number: int) -> set[int]:
        paths = (path for qpn in self._users(number) for path in self._nic.qp_paths(qpn))
        return {path.ev for path in paths if path.state is PathState.ASSUMED_BAD}

    def _port_of(self, ev: int) -> int | None:
        for one in self._nic.control.destinations():
            first = one.all_evs().get(ev)
            if first is not None:
                return one.planes[one.evs.index(first)]
        return None

    def event_of(self, qpn: int, state: PathState) -> int | None:
        """The EV profile for which it is an event that a path of queue pair `qpn` entered `state`."""
        if not any(state in profile.events for profile in self._evs.values()):
            return None
        try:
            number = self._nic.query_qp(qpn).attributes.ev_profile
        except NotFoundError:  # it ended since
            return None
        return number if state in self.ev_profile(number).events else None

    # ---- CC profiles --------------------------------------------------------------------------------------------

    def cc_profile(self, number: int) -> ProgrammedCcProfile:
        """A CC profile; in INIT if nobody has configured it."""
        return self._ccs.get(number, ProgrammedCcProfile())

    def modify_cc_profile(self, number: int, change: CcProfileChange) -> None:
        """Change a CC profile; StateError if it would go offline while a queue pair uses it."""
        if number < 1:
            raise InvalidArgumentError("CC profiles have the numbers from 1 on: 0 is the NIC's default.")
        before = self.cc_profile(number)
        to = _next_state(before.state, change.current, change.state)
        if before.state is ProfileState.ONLINE:
            _refuse_online(change.controlled, change.nscc)
        if before.state is ProfileState.INIT and to is ProfileState.OFFLINE and change.controlled is None:
            raise InvalidArgumentError("A CC profile needs an algorithm before it can be offline.")
        after = replace(
            before,
            state=to,
            controlled=before.controlled if change.controlled is None else change.controlled,
            configured=before.configured or change.nscc is not None,
            nscc=before.nscc if change.nscc is None else change.nscc,
        )
        if to is not before.state and to is ProfileState.ONLINE:
            if after.controlled and not after.configured:
                raise InvalidArgumentError("A CC profile needs its configuration before it can be online.")
            made = CcProfile("nscc", nscc=after.nscc) if after.controlled else CcProfile("none")
            self._nic.control.create_cc_profile(str(number), made)
        elif before.state is ProfileState.ONLINE and to is ProfileState.OFFLINE:
            self._nic.control.destroy_cc_profile(str(number))
        _keep(self._ccs, number, after)


def ev_fields(fields: Sequence[ProgrammedField], widths: Sequence[int]) -> tuple[EvField, ...]:
    """Fields in the words of the NIC, filled up with zeros to the widths of the format; InvalidArgumentError.

    The API's limits are those of the masked bits, the NIC's those of the whole field, whose other bits are fixed.
    """
    if len(fields) > len(widths):
        raise InvalidArgumentError(f"There are {len(fields)} fields, and the format has {len(widths)}.")
    made: list[EvField] = []
    for number, (one, width) in enumerate(zip(fields, widths, strict=False)):
        full = (1 << one.width) - 1 if 1 <= one.width <= width else -1
        bits = one.mask.bit_count()
        maximum = one.maximum or (1 << bits) - 1
        if full < 0 or one.init_val > full or one.mask > full or maximum >> bits or one.minimum > maximum:
            raise InvalidArgumentError(f"Field {number} has values that do not fit its width or mask.")
        if min(one.init_val, one.mask, one.minimum, one.maximum) < 0:
            raise InvalidArgumentError(f"Field {number} has negative values.")
        if width > one.width:
            made.append(_zeros(width - one.width))
        fixed = one.init_val & ~one.mask
        low, high = (fixed | _spread(limit, one.mask) for limit in (one.minimum, maximum))
        made.append(EvField(one.width, fixed, low, high, one.mask))
    return (*made, *map(_zeros, widths[len(fields) :]))


def _zeros(width: int) -> EvField:
    return EvField(width, 0, 0, 0, 0)


def _spread(bits: int, mask: int) -> int:
    """`bits` at the positions of `mask`, the least significant first."""
    value, position = 0, 0
    while mask >> position:
        if mask >> position & 1:
            value |= (bits & 1) << position
            bits >>= 1
        position += 1
    return value


def _changed(before: ProgrammedEvProfile, change: EvProfileChange, to: ProfileState) -> ProgrammedEvProfile:
    after = replace(
        before,
        state=to,
        mode=before.mode if change.mode is None else change.mode,
        ev_format=before.ev_format if change.ev_format is None else change.ev_format,
        count=before.count if change.count is None else change.count,
        min_active=before.min_active if change.min_active is None else change.min_active,
        events=before.events if change.events is None else change.events,
        fields=before.fields if change.fields is None else change.fields,
    )
    size = after.count if after.mode is EvMode.EXPLICIT and after.count <= MAX_PATHS else 0
    return after if len(after.evs) == size else replace(after, evs=(None,) * size)


def _next_state(state: ProfileState, expected: ProfileState | None, wanted: ProfileState | None) -> ProfileState:
    if expected is not None and expected is not state:
        raise InvalidArgumentError(f"The profile is {state.name}, not {expected.name}.")
    to = state if wanted is None else wanted
    if to is not state and (state, to) not in _STEPS:
        raise InvalidArgumentError(f"A profile does not go from {state.name} to {to.name}.")
    if to is ProfileState.INIT and state is to:
        raise InvalidArgumentError("A profile in INIT must go OFFLINE to be configured.")
    return to


def _refuse_online(*changes: object) -> None:
    if any(change is not None for change in changes):
        raise InvalidArgumentError("A profile that is ONLINE can only go OFFLINE.")


def _keep(profiles: dict[int, P], number: int, profile: P) -> None:
    if profile.state is ProfileState.INIT:
        profiles.pop(number, None)
        return
    if number not in profiles and len(profiles) >= MAX_PROFILES:
        raise ResourceExhaustedError(f"{MAX_PROFILES} profiles of this kind are configured already.")
    profiles[number] = profile
