"""Values that a controller programs by the OCP's MRC API (``mrc_ctl.h``): profiles with their numbers and states.

They cross the agent's socket as arguments and results of verbs (:mod:`mrc_host.verbs.remote.agent_verbs`), so all are
frozen dataclasses; :mod:`mrc_host.agent.programmed_profiles` is how they change. In a change, None leaves a part as
it is.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from mrc_host.verbs_types import EvMode, NsccProfile, PathState


class ProfileState(enum.Enum):
    """A profile is INIT until it is configured, OFFLINE while it may change, and ONLINE when queue pairs may use it."""

    INIT = "init"
    OFFLINE = "offline"
    ONLINE = "online"


class EvFormatMode(enum.Enum):
    """Where packets carry an entropy value."""

    STRUCTURED = "stev"
    SRV6 = "srv6"
    UDP = "udp"


@dataclass(frozen=True, slots=True)
class EvFormatProfile:
    """How wide the fields of entropy values are, in bits, the most significant first."""

    state: ProfileState = ProfileState.INIT
    mode: EvFormatMode | None = None
    widths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EvFormatChange:
    """A change of an EV format profile. `current` is the state that the caller expects."""

    state: ProfileState | None = None
    current: ProfileState | None = None
    mode: EvFormatMode | None = None
    widths: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ProgrammedField:
    """A field of generated entropy values. `minimum` and `maximum` are of the bits in `mask`; 0 is no maximum."""

    width: int
    init_val: int
    minimum: int
    maximum: int
    mask: int


@dataclass(frozen=True, slots=True)
class ProgrammedEvProfile:
    """An EV profile: `count` entropy values of `mode`, in the format of EV format profile `ev_format`.

    `evs` are those of an EXPLICIT profile, None where none is set yet, and `fields` those of a GENERATED one. `events`
    are the states whose entering is an event.
    """

    state: ProfileState = ProfileState.INIT
    mode: EvMode | None = None
    ev_format: int | None = None
    count: int = 0
    min_active: int = 0
    events: tuple[PathState, ...] = ()
    fields: tuple[ProgrammedField, ...] = ()
    evs: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class EvProfileChange:
    """A change of an EV profile. `current` is the state that the caller expects."""

    state: ProfileState | None = None
    current: ProfileState | None = None
    mode: EvMode | None = None
    ev_format: int | None = None
    count: int | None = None
    min_active: int | None = None
    events: tuple[PathState, ...] | None = None
    fields: tuple[ProgrammedField, ...] | None = None


@dataclass(frozen=True, slots=True)
class PortedEv:
    """An entropy value and the port that it leaves by."""

    ev: int
    port: int


@dataclass(frozen=True, slots=True)
class EvReplacement:
    """Put `new` in the place of `old`, None where nothing is set yet: of the first, or of `all_copies`."""

    old: int | None
    new: PortedEv
    all_copies: bool = False


@dataclass(frozen=True, slots=True)
class ProgrammedEv:
    """An entry of an EV profile: None as `ev` if it is not set. `port` is None if no destination is reached by it."""

    ev: int | None
    port: int | None
    state: PathState


@dataclass(frozen=True, slots=True)
class ProgrammedEvs:
    """Some entries of an EV profile, which has `total`."""

    total: int
    entries: tuple[ProgrammedEv, ...]


@dataclass(frozen=True, slots=True)
class ProgrammedCcProfile:
    """A CC profile: NSCC with constants of its own, once they are `configured`; or no congestion control."""

    state: ProfileState = ProfileState.INIT
    controlled: bool = True
    configured: bool = False
    nscc: NsccProfile = field(default_factory=NsccProfile)


@dataclass(frozen=True, slots=True)
class CcProfileChange:
    """A change of a CC profile. `current` is the state that the caller expects."""

    state: ProfileState | None = None
    current: ProfileState | None = None
    controlled: bool | None = None
    nscc: NsccProfile | None = None


@dataclass(frozen=True, slots=True)
class ControlLimits:
    """What a controller may program: formats, profiles of each kind, and entropy values of one profile and of all."""

    mode: EvFormatMode
    ports: int
    max_profiles: int
    max_evs: int
    evs_in_use: int
