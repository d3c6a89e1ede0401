"""Agent-side operations of the OCP's MRC API (:mod:`mrc_host.verbs.remote.control_api_verbs`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from mrc_host.agent.programmed_profiles import ProgrammedProfiles
from mrc_host.errors import InvalidArgumentError
from mrc_host.verbs.remote.control_api_verbs import MAX_ENTRIES, ControlApiVerbs
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

if TYPE_CHECKING:
    from mrc_host.nic import Nic


class ControlApiServices(Protocol):
    """What these operations use of their agent."""

    programmed: ProgrammedProfiles
    nic: Nic
    enable_port: Callable[[int, bool], None]
    disabled_ports: set[int]


class ControlApiOperations(ControlApiVerbs):
    """The verbs for the OCP's MRC API."""

    def __init__(self, services: ControlApiServices) -> None:
        self._services = services

    def control_limits(self) -> ControlLimits:
        """What a controller may program."""
        return self._services.programmed.limits()

    def modify_ev_format(self, number: int, change: EvFormatChange) -> None:
        """Change an EV format profile."""
        self._services.programmed.modify_ev_format(number, change)

    def programmed_ev_format(self, number: int) -> EvFormatProfile:
        """An EV format profile."""
        return self._services.programmed.ev_format(number)

    def modify_ev_profile(self, number: int, change: EvProfileChange) -> None:
        """Change an EV profile."""
        self._services.programmed.modify_ev_profile(number, change)

    def programmed_ev_profile(self, number: int) -> ProgrammedEvProfile:
        """An EV profile, without its entropy values."""
        return replace(self._services.programmed.ev_profile(number), evs=())

    def replace_evs(self, number: int, replacements: tuple[EvReplacement, ...]) -> None:
        """Set entries of an explicit EV profile."""
        self._services.programmed.replace_evs(number, replacements)

    def deny_ev(self, number: int, ev: int, denied: bool) -> None:
        """Deny an entropy value of an EV profile, or allow it."""
        self._services.programmed.deny_ev(number, ev, denied)

    def programmed_evs(self, number: int, first: int = 0, ev: int | None = None) -> ProgrammedEvs:
        """Some entries of an EV profile."""
        if ev is not None:
            return ProgrammedEvs(1, self._services.programmed.evs_of(number, (ev,)))
        entries = self._services.programmed.evs_of(number)
        return ProgrammedEvs(len(entries), entries[first : first + MAX_ENTRIES])

    def modify_cc_profile(self, number: int, change: CcProfileChange) -> None:
        """Change a CC profile."""
        self._services.programmed.modify_cc_profile(number, change)

    def programmed_cc_profile(self, number: int) -> ProgrammedCcProfile:
        """A CC profile."""
        return self._services.programmed.cc_profile(number)

    def enable_port(self, number: int, enabled: bool) -> None:
        """Use a port, or do not."""
        self._check_port(number)
        self._services.enable_port(number, enabled)
        if enabled:
            self._services.disabled_ports.discard(number)
        else:
            self._services.disabled_ports.add(number)

    def port_enabled(self, number: int) -> bool:
        """Whether a port is used."""
        self._check_port(number)
        return number not in self._services.disabled_ports

    def _check_port(self, port: int) -> None:
        count = len(self._services.nic.config.ports)
        if port >= count:
            raise InvalidArgumentError(f"The NIC has the ports 0 to {count - 1}, and no {port}.")
