"""The verbs that ``libmrc.so`` carries out the controller's half of the OCP's MRC API with (``mrc_ctl.h``).

Profiles here have the states and numbers of that API (:mod:`mrc_host.agent.programmed_profiles`); whoever controls a
NIC from Python has simpler ones (:mod:`mrc_host.verbs.controller`).
"""

from __future__ import annotations

from typing import Annotated

from mrc_host.verbs.declaration import U32, U64, Caller, IntegerRange, Length, Verbs, verb
from mrc_host.verbs.remote.profile_values import (
    CcProfileChange,
    ControlLimits,
    EvFormatChange,
    EvFormatProfile,
    EvProfileChange,
    EvReplacement,
    ProgrammedCcProfile,
    ProgrammedEvProfile,
    ProgrammedEvs,
)

MAX_ENTRIES = 256  # of one request

Port = Annotated[int, IntegerRange(0, 255)]


class ControlApiVerbs(Verbs):
    """Profiles by their numbers, entropy values of profiles, and ports."""

    @verb()
    def control_limits(self) -> ControlLimits:
        """What a controller may program."""

    @verb(caller=Caller.CONTROLLER)
    def modify_ev_format(self, number: U64, change: EvFormatChange) -> None:
        """Change an EV format profile; StateError while an EV profile with it is online."""

    @verb(caller=Caller.CONTROLLER)
    def programmed_ev_format(self, number: U64) -> EvFormatProfile:
        """An EV format profile."""

    @verb(caller=Caller.CONTROLLER)
    def modify_ev_profile(self, number: U64, change: EvProfileChange) -> None:
        """Change an EV profile; StateError if it would go offline while a queue pair uses it."""

    @verb(caller=Caller.CONTROLLER)
    def programmed_ev_profile(self, number: U64) -> ProgrammedEvProfile:
        """An EV profile, without its entropy values."""

    @verb(caller=Caller.CONTROLLER)
    def replace_evs(
        self,
        number: U64,
        replacements: Annotated[tuple[EvReplacement, ...], Length(1, MAX_ENTRIES, "entries")],
    ) -> None:
        """Set entries of an explicit EV profile that is offline, in order, up to one that fails; NotFoundError."""

    @verb(caller=Caller.CONTROLLER)
    def deny_ev(self, number: U64, ev: U32, denied: bool) -> None:
        """Deny an entropy value of an EV profile towards all destinations, or allow it; NotFoundError."""

    @verb(caller=Caller.CONTROLLER)
    def programmed_evs(self, number: U64, first: U32 = 0, ev: U32 | None = None) -> ProgrammedEvs:
        """Up to 256 entries of an EV profile from `first` on, or only `ev`, with their states; NotFoundError."""

    @verb(caller=Caller.CONTROLLER)
    def modify_cc_profile(self, number: U64, change: CcProfileChange) -> None:
        """Change a CC profile; StateError if it would go offline while a queue pair uses it."""

    @verb(caller=Caller.CONTROLLER)
    def programmed_cc_profile(self, number: U64) -> ProgrammedCcProfile:
        """A CC profile."""

    @verb(caller=Caller.CONTROLLER)
    def enable_port(self, number: Port, enabled: bool) -> None:
        """Use a port whenever it has a link, or do not, as if it had none."""

    @verb(caller=Caller.CONTROLLER)
    def port_enabled(self, number: Port) -> bool:
        """Whether a port is used when it has a link."""
