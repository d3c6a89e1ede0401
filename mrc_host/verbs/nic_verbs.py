"""The table of verbs: the commands of every NIC, in this process or through its agent.

Each verb is declared once, here (:mod:`mrc_host.verbs.declaration` says how); the device has a command of the same
name. Verbs that only an agent has are in :mod:`mrc_host.verbs.remote.agent_verbs`, and what each provider does in
its own way (posting and polling above all) in :mod:`mrc_host.verbs.provider`. Errors are those of
:mod:`mrc_host.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from mrc_host.path_probes import ProbePlan, ProbeReport
from mrc_host.verbs.declaration import (
    U32,
    U62,
    Address,
    AnyQp,
    Caller,
    FieldsOf,
    IntegerRange,
    Length,
    OwnCq,
    OwnPd,
    OwnQp,
    OwnRegion,
    Verbs,
    verb,
)
from mrc_host.verbs_types import (
    MAX_RECEIVES,
    CcProfile,
    DeniedPath,
    DestinationInfo,
    DeviceLimits,
    EvProfile,
    PathInfo,
    PortState,
    QpAddress,
    QpAttributes,
    QpCounters,
    QpInfo,
    QpState,
    QpType,
)

Name = Annotated[str, Length(1, 64, "characters")]


class NicVerbs(Verbs):
    """The verbs of a NIC."""

    # ---- objects of a client ------------------------------------------------------------------------------------

    @verb()
    def alloc_pd(self) -> int:
        """A new protection domain's number, unique on this NIC."""

    @verb()
    def dealloc_pd(self, pd: OwnPd) -> None:
        """Forget a protection domain; StateError while something is in it."""

    @verb()
    def deregister_memory(self, lkey: OwnRegion) -> None:
        """End a registration."""

    @verb()
    def destroy_cq(self, cq: OwnCq) -> None:
        """End a completion queue; StateError while a queue pair uses it."""

    @verb()
    def create_qp(self, pd: OwnPd, qp_type: QpType, send_cq: OwnCq, recv_cq: OwnCq, attributes: QpAttributes) -> int:
        """A queue pair in RESET; returns its QPN."""

    @verb(sends=True)
    def connect_qp(self, qpn: OwnQp, remote: QpAddress) -> None:
        """Bring a queue pair to RTS towards `remote`."""

    @verb(sends=True)
    def modify_qp(
        self,
        qpn: OwnQp,
        state: QpState,
        changes: Annotated[Mapping[str, Any], FieldsOf(QpAttributes)],
        remote: QpAddress | None = None,
    ) -> None:
        """One state transition of a queue pair, like :meth:`mrc_host.nic.Nic.modify_qp`."""

    @verb(sends=True)
    def post_recv(self, qpn: OwnQp, wr_ids: Annotated[tuple[int, ...], Length(0, MAX_RECEIVES, "entries")]) -> None:
        """Queue receives, of which each arriving WRITE_WITH_IMM completes the oldest."""

    @verb(sends=True)
    def destroy_qp(self, qpn: OwnQp) -> None:
        """Destroy a queue pair; unfinished requests complete as FLUSHED."""

    @verb()
    def qp_address(self, qpn: OwnQp) -> QpAddress:
        """What the other end needs to connect to a queue pair in its present life."""

    @verb()
    def query_qp(self, qpn: OwnQp) -> QpInfo:
        """A queue pair as it is now: its state, attributes, other end and queues."""

    @verb()
    def query_device(self) -> DeviceLimits:
        """What the NIC can do at most."""

    # ---- state --------------------------------------------------------------------------------------------------

    @verb()
    def qp_state(self, qpn: AnyQp) -> QpState:
        """State of a queue pair."""

    @verb()
    def qp_counters(self, qpn: AnyQp) -> QpCounters:
        """Counters of a queue pair."""

    @verb()
    def qp_paths(self, qpn: AnyQp) -> tuple[PathInfo, ...]:
        """Paths of a queue pair."""

    @verb()
    def nic_counters(self) -> Mapping[str, int]:
        """Counters of the NIC."""

    @verb(timed=True)
    def hw_counters(self, qpn: AnyQp | None = None) -> Mapping[str, int]:
        """All counters of a queue pair, or of the NIC (None), by name (docs/counters.md)."""

    @verb()
    def port_counters(self) -> tuple[Mapping[str, int], ...]:
        """All counters of each port, by name (docs/counters.md)."""

    @verb()
    def port_states(self, peer: Address | None = None) -> tuple[PortState, ...]:
        """The NIC's ports, or those of the NIC with address `peer` as it last reported them."""

    @verb()
    def destinations(self) -> tuple[DestinationInfo, ...]:
        """The NICs to which there are paths, with their entropy values."""

    @verb()
    def denied_paths(self) -> tuple[DeniedPath, ...]:
        """The denylist."""

    @verb()
    def ev_profiles(self) -> Mapping[int, EvProfile]:
        """All EV profiles by number."""

    @verb()
    def cc_profiles(self) -> Mapping[str, CcProfile]:
        """All CC profiles by name."""

    # ---- for the whole NIC --------------------------------------------------------------------------------------

    @verb(caller=Caller.CONTROLLER, sends=True)
    def deny_path(self, peer: Address, ev: U32, denied: bool, leased: bool = False) -> None:
        """Take one path to a peer out of use for every queue pair, or allow it again.

        With `leased` the path is denied for as long as the caller is connected to the agent, and `denied` False only
        ends its own lease.
        """

    @verb(caller=Caller.CONTROLLER)
    def create_ev_profile(self, profile: EvProfile) -> int:
        """Number of a new EV profile. It belongs to the NIC and outlives its creator."""

    @verb(caller=Caller.CONTROLLER)
    def destroy_ev_profile(self, number: U62) -> None:
        """Forget an EV profile that no queue pair has."""

    @verb(caller=Caller.CONTROLLER)
    def create_cc_profile(self, name: Name, profile: CcProfile) -> None:
        """Create a CC profile with a name. It belongs to the NIC and outlives its creator."""

    @verb(caller=Caller.CONTROLLER)
    def destroy_cc_profile(self, name: Name) -> None:
        """Forget a CC profile that no queue pair names."""

    @verb(caller=Caller.CONTROLLER, sends=True)
    def probe(self, peer: Address, ev: U32, timeout: Annotated[int, IntegerRange(1, 1 << 62)]) -> int:
        """Send an endpoint probe with a timeout in ns; its result is a ProbeEvent with the number returned."""

    @verb(caller=Caller.CONTROLLER, sends=True)
    def start_probing(self, plan: ProbePlan) -> None:
        """Send path probes by `plan`, which replaces any other; an agent does so while the caller is connected."""

    @verb(caller=Caller.CONTROLLER)
    def stop_probing(self) -> None:
        """Stop sending path probes."""

    @verb(caller=Caller.CONTROLLER)
    def probe_report(self) -> ProbeReport:
        """Path probes sent and received since the last report to any client."""
