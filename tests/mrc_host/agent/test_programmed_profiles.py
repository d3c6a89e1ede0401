"""Profiles as the OCP's MRC API programs them: their states, what each step needs, and what the NIC gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from mrc_host.agent.programmed_profiles import ProgrammedProfiles, ev_fields
from mrc_host.back_to_back import nic_config
from mrc_host.config import EvFormat
from mrc_host.errors import InvalidArgumentError, MrcError, NotFoundError, StateError
from mrc_host.nic import Nic
from mrc_host.transport.profiles import fill, generates
from mrc_host.verbs.remote.profile_values import (
    CcProfileChange,
    EvFormatChange,
    EvFormatMode,
    EvProfileChange,
    EvReplacement,
    PortedEv,
    ProfileState,
    ProgrammedField,
)
from mrc_host.verbs_types import (
    EvMode,
    EvProfile,
    NsccProfile,
    PathState,
    QpAddress,
    QpAttributes,
    QpState,
    QpType,
)

INIT, OFFLINE, ONLINE = ProfileState
FORMAT = 13
EVS = nic_config(0).destinations[0].evs  # ports 0 and 1 in turn


class Programmed:
    """A NIC with what is programmed on it, and its queue pairs."""

    def __init__(self, ev_format: EvFormat = EvFormat.SRV6) -> None:
        config = nic_config(0)
        settings = replace(
            config.settings, ev_format=ev_format, transport=replace(config.settings.transport, base_rtt=10_000)
        )
        self.nic = Nic(replace(config, settings=settings), seed=1)
        self.pairs: list[int] = []
        self.profiles = ProgrammedProfiles(
            self.nic, lambda peer, ev, denied: self.nic.control.set_path_denied(peer, ev, denied, 0), lambda: self.pairs
        )
        self.cq = self.nic.create_cq(16)

    def format_online(self, *widths: int) -> None:
        mode = self.profiles.limits().mode
        self.profiles.modify_ev_format(FORMAT, EvFormatChange(OFFLINE, mode=mode, widths=widths))
        self.profiles.modify_ev_format(FORMAT, EvFormatChange(ONLINE))

    def explicit(self, number: int, *evs: int) -> None:
        """An explicit EV profile, online."""
        change = EvProfileChange(OFFLINE, mode=EvMode.EXPLICIT, ev_format=FORMAT, count=len(evs))
        self.profiles.modify_ev_profile(number, change)
        self.profiles.replace_evs(number, [EvReplacement(None, PortedEv(ev, EVS.index(ev) % 2)) for ev in evs])
        self.profiles.modify_ev_profile(number, EvProfileChange(ONLINE))

    def connect(self, **attributes: object) -> int:
        """A queue pair in RTS to a NIC that does not answer."""
        wanted = QpAttributes(receive_psn=0, send_psn=0, **attributes)  # type: ignore[arg-type]
        qpn = self.nic.create_qp(1, QpType.MRC, self.cq, self.cq, wanted)
        self.nic.connect_qp(qpn, QpAddress(nic_config(0).destinations[0].address, 20, 0), 0)
        self.pairs.append(qpn)
        return qpn


@pytest.fixture
def programmed() -> Programmed:
    made = Programmed()
    made.format_online(9, 10, 3, 10)
    return made


def refused(call: Callable[[], None], error: type[MrcError] = InvalidArgumentError, match: str | None = None) -> None:
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        (EvFormat.SRV6, EvFormatMode.SRV6),
        (EvFormat.SRV6_SRH, EvFormatMode.SRV6),
        (EvFormat.STRUCTURED, EvFormatMode.STRUCTURED),
    ],
)
def test_only_the_nics_own_format_can_be_programmed(kind: EvFormat, mode: EvFormatMode) -> None:
    profiles = Programmed(kind).profiles
    assert profiles.limits().mode is mode
    for wrong in set(EvFormatMode) - {mode}:
        refused(lambda wrong=wrong: profiles.modify_ev_format(1, EvFormatChange(OFFLINE, mode=wrong)))  # type: ignore[misc]
    refused(lambda: profiles.modify_ev_format(1, EvFormatChange(OFFLINE)))
    profiles.modify_ev_format(1, EvFormatChange(OFFLINE, mode=mode))
    refused(lambda: profiles.modify_ev_format(1, EvFormatChange(ONLINE)), match="needs fields")
    assert profiles.ev_format(1).state is OFFLINE


@pytest.mark.parametrize("widths", [(33,), (16, 17), (0, 8), (-1,), (1,) * 33])
def test_a_format_has_fields_of_32_bits_at_most(widths: tuple[int, ...]) -> None:
    profiles = Programmed().profiles
    change = EvFormatChange(OFFLINE, mode=EvFormatMode.SRV6, widths=widths)
    refused(lambda: profiles.modify_ev_format(1, change))
    assert profiles.ev_format(1).state is INIT


def test_profiles_go_from_state_to_state_without_leaving_one_out(programmed: Programmed) -> None:
    profiles = programmed.profiles
    refused(lambda: profiles.modify_ev_format(FORMAT, EvFormatChange(INIT)))
    refused(lambda: profiles.modify_ev_format(FORMAT, EvFormatChange(widths=(8,))))
    refused(lambda: profiles.modify_ev_format(FORMAT, EvFormatChange(OFFLINE, current=OFFLINE)), match="is ONLINE")
    refused(lambda: profiles.modify_ev_profile(1, EvProfileChange(ONLINE, mode=EvMode.AUTO)))
    refused(lambda: profiles.modify_ev_profile(1, EvProfileChange(mode=EvMode.AUTO)), match="must go OFFLINE")
    refused(lambda: profiles.modify_cc_profile(1, CcProfileChange(ONLINE)))
    profiles.modify_ev_format(FORMAT, EvFormatChange(OFFLINE, current=ONLINE))
    profiles.modify_ev_format(FORMAT, EvFormatChange(widths=(8,)))
    assert profiles.ev_format(FORMAT).widths == (8,)
    profiles.modify_ev_format(FORMAT, EvFormatChange(INIT))
    assert profiles.ev_format(FORMAT).mode is None


def test_an_explicit_profile_is_the_nics_under_its_number_while_it_is_online(programmed: Programmed) -> None:
    programmed.explicit(77, EVS[1], EVS[0], EVS[4])
    assert dict(programmed.nic.control.ev_profiles()) == {77: EvProfile(EvMode.EXPLICIT, evs=(EVS[1], EVS[0], EVS[4]))}
    qpn = programmed.connect(ev_profile=77)
    assert {path.ev for path in programmed.nic.qp_paths(qpn)} == {EVS[1], EVS[0], EVS[4]}
    offline = EvProfileChange(OFFLINE)
    refused(lambda: programmed.profiles.modify_ev_profile(77, offline), StateError, "still used")
    refused(lambda: programmed.profiles.modify_ev_format(FORMAT, EvFormatChange(OFFLINE)), StateError)
    assert programmed.profiles.ev_profile(77).state is ONLINE
    programmed.nic.destroy_qp(qpn, 0)
    programmed.profiles.modify_ev_profile(77, offline)
    assert programmed.nic.control.ev_profiles() == {}
    assert programmed.profiles.ev_profile(77).evs == (EVS[1], EVS[0], EVS[4])


def test_every_entry_must_be_replaced_before_a_profile_is_online(programmed: Programmed) -> None:
    profiles = programmed.profiles
    change = EvProfileChange(OFFLINE, mode=EvMode.EXPLICIT, ev_format=FORMAT, count=3)
    profiles.modify_ev_profile(1, change)
    profiles.replace_evs(1, [EvReplacement(None, PortedEv(EVS[0], 0))])
    refused(lambda: profiles.modify_ev_profile(1, EvProfileChange(ONLINE)), match="must be replaced")
    assert profiles.ev_profile(1).evs == (EVS[0], None, None)
    profiles.replace_evs(1, [EvReplacement(None, PortedEv(EVS[2], 0), all_copies=True)])
    assert profiles.ev_profile(1).evs == (EVS[0], EVS[2], EVS[2])
    with pytest.raises(NotFoundError):
        profiles.replace_evs(1, [EvReplacement(EVS[2], PortedEv(EVS[4], 0)), EvReplacement(5, PortedEv(EVS[6], 0))])
    assert profiles.ev_profile(1).evs == (EVS[0], EVS[4], EVS[2]), "those before the one that fails are set"
    profiles.modify_ev_profile(1, EvProfileChange(ONLINE))
    refused(lambda: profiles.replace_evs(1, [EvReplacement(EVS[0], PortedEv(EVS[6], 0))]))


@pytest.mark.parametrize(
    ("ev", "port", "why"),
    [(EVS[0], 1, "leaves by port 0"), (EVS[0], 2, "no such port"), (EVS[0], -1, "no such port"), (1 << 32, 0, "fit")],
)
def test_an_entropy_value_that_makes_no_sense_is_refused(programmed: Programmed, ev: int, port: int, why: str) -> None:
    change = EvProfileChange(OFFLINE, mode=EvMode.EXPLICIT, ev_format=FORMAT, count=1)
    programmed.profiles.modify_ev_profile(1, change)
    refused(lambda: programmed.profiles.replace_evs(1, [EvReplacement(None, PortedEv(ev, port))]), match=why)


@pytest.mark.parametrize(
    "change",
    [
        EvProfileChange(OFFLINE),
        EvProfileChange(OFFLINE, mode=EvMode.EXPLICIT, ev_format=FORMAT),
        EvProfileChange(OFFLINE, mode=EvMode.EXPLICIT, ev_format=FORMAT, count=4097),
        EvProfileChange(OFFLINE, mode=EvMode.EXPLICIT, ev_format=FORMAT, count=-1),
        EvProfileChange(OFFLINE, mode=EvMode.EXPLICIT, count=4),
        EvProfileChange(OFFLINE, mode=EvMode.EXPLICIT, ev_format=FORMAT + 1, count=4),
        EvProfileChange(OFFLINE, mode=EvMode.EXPLICIT, ev_format=FORMAT, count=4, min_active=5),
        EvProfileChange(OFFLINE, mode=EvMode.AUTO, fields=(ProgrammedField(8, 0, 0, 0, 0),)),
        EvProfileChange(OFFLINE, mode=EvMode.AUTO, events=(PathState.SKIP,)),
    ],
)
def test_an_ev_profile_that_makes_no_sense_stays_in_init(programmed: Programmed, change: EvProfileChange) -> None:
    refused(lambda: programmed.profiles.modify_ev_profile(1, change))
    assert programmed.profiles.ev_profile(1).state is INIT


@pytest.mark.parametrize("number", [0, (1 << 31) + 1])
def test_numbers_that_queue_pairs_cannot_name_are_refused(programmed: Programmed, number: int) -> None:
    change = EvProfileChange(OFFLINE, mode=EvMode.AUTO)
    refused(lambda: programmed.profiles.modify_ev_profile(number, change))


def test_numbers_of_python_controllers_and_programmed_ones_do_not_meet(programmed: Programmed) -> None:
    programmed.explicit(1, EVS[0])
    assert programmed.nic.control.create_ev_profile(EvProfile()) == 2
    programmed.profiles.modify_ev_profile(2, EvProfileChange(OFFLINE, mode=EvMode.AUTO))
    refused(lambda: programmed.profiles.modify_ev_profile(2, EvProfileChange(ONLINE)), match="already")
    assert programmed.profiles.ev_profile(2).state is OFFLINE


def test_limits_of_a_field_are_those_of_its_masked_bits() -> None:
    """The API's own example: 8 bits of which the lower 4 vary, between 3 and 9, behind a fixed nibble."""
    (field,) = ev_fields([ProgrammedField(8, 0xA0, 3, 9, 0x0F)], [8])
    profile = EvProfile(EvMode.GENERATED, fields=(field,))
    assert [ev for ev in range(256) if generates(profile, ev)] == list(range(0xA3, 0xAA))
    (spread,) = ev_fields([ProgrammedField(8, 0x41, 1, 2, 0b1010_0000)], [8])
    made = {fill(EvProfile(EvMode.GENERATED, fields=(spread,)), raw) for raw in range(4)}
    assert made == {0x41, 0x61, 0xC1, 0xE1}
    assert {ev for ev in made if generates(EvProfile(EvMode.GENERATED, fields=(spread,)), ev)} == {0x61, 0xC1}


def test_a_maximum_of_zero_is_none_and_a_mask_of_zero_is_a_fixed_field() -> None:
    fields = ev_fields([ProgrammedField(4, 5, 0, 0, 0), ProgrammedField(3, 0, 0, 0, 7)], [4, 3])
    profile = EvProfile(EvMode.GENERATED, fields=fields)
    assert [ev for ev in range(128) if generates(profile, ev)] == list(range(5 << 3, 6 << 3))


def test_fields_narrower_than_the_format_are_filled_up_with_zeros() -> None:
    fields = ev_fields([ProgrammedField(2, 0, 0, 0, 3)], [4, 3])
    assert sum(field.width for field in fields) == 7
    profile = EvProfile(EvMode.GENERATED, fields=fields)
    assert [ev for ev in range(128) if generates(profile, ev)] == [0, 8, 16, 24]


@pytest.mark.parametrize(
    "field",
    [
        ProgrammedField(9, 0, 0, 0, 0), ProgrammedField(0, 0, 0, 0, 0), ProgrammedField(8, 256, 0, 0, 0),
        ProgrammedField(8, 0, 0, 0, 256), ProgrammedField(8, 0, 0, 16, 15), ProgrammedField(8, 0, 9, 8, 15),
        ProgrammedField(8, 0, 0, 0, -1), ProgrammedField(8, 0, 1, 0, 0),
    ],
)  # fmt: skip
def test_a_field_that_does_not_fit_is_refused(field: ProgrammedField) -> None:
    with pytest.raises(InvalidArgumentError):
        ev_fields([field], [8])
    with pytest.raises(InvalidArgumentError):
        ev_fields([ProgrammedField(1, 0, 0, 0, 0)] * 2, [8])


def test_a_generated_profile_sprays_over_what_its_fields_make(programmed: Programmed) -> None:
    fixed, plane = ProgrammedField(19, 0, 0, 0, 0), ProgrammedField(3, 0, 0, 1, 7)
    programmed.profiles.modify_ev_format(FORMAT, EvFormatChange(OFFLINE))
    programmed.profiles.modify_ev_format(FORMAT, EvFormatChange(widths=(19, 3, 10)))
    programmed.profiles.modify_ev_format(FORMAT, EvFormatChange(ONLINE))
    uplink = ProgrammedField(10, 0, 1, 2, 0x3FF)
    change = EvProfileChange(
        OFFLINE, mode=EvMode.GENERATED, ev_format=FORMAT, count=8, min_active=2, fields=(fixed, plane, uplink)
    )
    programmed.profiles.modify_ev_profile(5, change)
    programmed.profiles.modify_ev_profile(5, EvProfileChange(ONLINE))
    wanted = {plane << 10 | uplink for plane in (0, 1) for uplink in (1, 2)}
    assert {one.ev for one in programmed.profiles.evs_of(5)} == wanted
    qpn = programmed.connect(ev_profile=5)
    assert {path.ev for path in programmed.nic.qp_paths(qpn)} == wanted
    assert programmed.nic.control.ev_profiles()[5].ev_min_active == 2


def test_denied_entropy_values_are_out_of_use_and_shown_so(programmed: Programmed) -> None:
    programmed.explicit(3, EVS[0], EVS[1])
    programmed.profiles.deny_ev(3, EVS[1], True)
    peer = nic_config(0).destinations[0].address
    assert [(one.peer, one.ev) for one in programmed.nic.control.denied_paths()] == [(peer, EVS[1])]
    entries = programmed.profiles.evs_of(3)
    assert [(one.ev, one.port, one.state) for one in entries] == [
        (EVS[0], 0, PathState.GOOD),
        (EVS[1], 1, PathState.DENIED),
    ]
    programmed.profiles.deny_ev(3, EVS[1], False)
    assert programmed.profiles.evs_of(3, [EVS[1]])[0].state is PathState.GOOD
    for unknown in (EVS[2], 4711):
        refused(lambda unknown=unknown: programmed.profiles.deny_ev(3, unknown, True), NotFoundError)  # type: ignore[misc]
        with pytest.raises(NotFoundError):
            programmed.profiles.evs_of(3, [unknown])


def test_a_state_is_an_event_of_the_queue_pairs_profile_if_that_wants_it(programmed: Programmed) -> None:
    programmed.explicit(3, *EVS)
    wanted = EvProfileChange(events=(PathState.ASSUMED_BAD,))
    qpn, other = programmed.connect(ev_profile=3), programmed.connect()
    programmed.profiles.modify_ev_profile(3, wanted)  # also while it is online
    assert programmed.profiles.event_of(qpn, PathState.ASSUMED_BAD) == 3
    assert programmed.profiles.event_of(qpn, PathState.GOOD) is None
    assert programmed.profiles.event_of(other, PathState.ASSUMED_BAD) is None
    assert programmed.profiles.event_of(4711, PathState.ASSUMED_BAD) is None


def test_a_cc_profile_is_a_name_for_queue_pairs_while_it_is_online(programmed: Programmed) -> None:
    profiles = programmed.profiles
    refused(lambda: profiles.modify_cc_profile(0, CcProfileChange(OFFLINE, controlled=True)))
    refused(lambda: profiles.modify_cc_profile(8, CcProfileChange(OFFLINE)), match="algorithm")
    profiles.modify_cc_profile(8, CcProfileChange(OFFLINE, controlled=False))
    profiles.modify_cc_profile(8, CcProfileChange(ONLINE))
    assert programmed.nic.control.cc_profiles()["8"].algorithm == "none"
    qpn = programmed.connect(cc_profile="8")
    refused(lambda: profiles.modify_cc_profile(8, CcProfileChange(OFFLINE)), StateError)
    programmed.nic.modify_qp(qpn, QpState.RESET, 0)
    programmed.nic.destroy_qp(qpn, 0)
    profiles.modify_cc_profile(8, CcProfileChange(OFFLINE))
    profiles.modify_cc_profile(8, CcProfileChange(INIT))
    assert programmed.nic.control.cc_profiles() == {}


def test_nscc_needs_its_constants_and_they_are_checked(programmed: Programmed) -> None:
    profiles = programmed.profiles
    profiles.modify_cc_profile(1, CcProfileChange(OFFLINE, controlled=True))
    refused(lambda: profiles.modify_cc_profile(1, CcProfileChange(ONLINE)), match="configuration")
    profiles.modify_cc_profile(1, CcProfileChange(nscc=NsccProfile(gamma=7.0, base_rtt=10_000)))
    refused(lambda: profiles.modify_cc_profile(1, CcProfileChange(ONLINE)), match="gamma")
    assert profiles.cc_profile(1).state is OFFLINE
    profiles.modify_cc_profile(1, CcProfileChange(ONLINE, nscc=NsccProfile(gamma=0.5, base_rtt=10_000)))
    assert programmed.nic.control.cc_profiles()["1"].nscc.gamma == 0.5
