from __future__ import annotations

import pytest

from controller.fault_limits import EMULATION
from simulation.fault_limits import SIMULATION
from tests.topologies.faults.spells import LossyPathSpells, LossySpells
from topologies.clos import multi_plane_clos
from topologies.errors import FabricError, FaultLimitError
from topologies.faults import Fault
from topologies.faults.blackhole import Blackhole
from topologies.faults.delay import Delay
from topologies.faults.flap import Flap
from topologies.faults.limits import FaultLimits
from topologies.faults.loss import Loss
from topologies.faults.rate import Rate
from topologies.faults.record import FaultRecord
from topologies.faults.reordering import Reordering

FABRIC = multi_plane_clos("limits", planes=1, t0=2, t1=2, hosts=4)
KERNEL = FABRIC.with_kernel_switches(["*"])
MS = 1_000_000


@pytest.mark.parametrize(
    ("limits", "fault", "why"),
    [
        (EMULATION, Flap("h1@p0", 10 * MS - 1, 10 * MS), "flaps with times of 10 ms or more, not 9999999 ns down"),
        (SIMULATION, Flap("h1@p0", 1000, 999), "flaps with times of 1000 ns or more, not 1000 ns down and 999 ns up"),
        (
            SIMULATION,
            LossySpells("h1@p0", 999, 1000),
            "a link comes and goes with .* 1000 ns or more, not 999 ns on",
        ),
        (
            EMULATION,
            LossyPathSpells(1, MS, 10 * MS),
            "a fault comes and goes with .* 10 ms or more, not 1000000 ns on",
        ),
        (EMULATION, Rate("h1@p0", 7999), "at least 8000 b/s, not 7999"),
        (EMULATION, Delay("h1@p0", 10_000 * MS + 1), "10 s at most"),
        (EMULATION, Reordering("h1@p0", 0.5, 5), "emulation cannot make the fault reordering: use simulation"),
        (SIMULATION, Loss("h1@p0", 1e-10), "no probability below one in a billion"),
    ],
)
def test_what_a_backend_cannot_do_is_refused(limits: FaultLimits, fault: Fault, why: str) -> None:
    with pytest.raises(FabricError, match=why):
        limits.effect_of(FABRIC, fault)


@pytest.mark.parametrize(
    "fault", [Flap("h1@p0", 1000, 1000), Rate("h1@p0", 1), Delay("h1@p0", 1 << 60), Reordering("*", 1.0, 5)]
)
def test_simulation_can_do_more(fault: Fault) -> None:
    assert SIMULATION.effect_of(FABRIC, fault).links


@pytest.mark.parametrize("fault", [Loss("h1@p0", 0.5), Delay("h1@p0", 5), Blackhole("t1-0@p0")])
def test_kernel_switches_make_no_faults_in_emulation_alone(fault: Fault) -> None:
    with pytest.raises(FabricError, match="P4"):
        EMULATION.effect_of(KERNEL, fault)
    assert SIMULATION.effect_of(KERNEL, fault) == SIMULATION.effect_of(FABRIC, fault)


def test_times_are_bounded_where_there_is_a_bound() -> None:
    SIMULATION.check_times(1 << 62, 1 << 62)
    with pytest.raises(FabricError, match="a fault cannot last -1 ns: 0 or more ns are possible"):
        SIMULATION.check_times(0, -1)
    with pytest.raises(FabricError, match="a fault cannot begin 4611686018427387904 ns: 0 to 315360000000000000 ns"):
        EMULATION.check_times(1 << 62, 0)


def test_what_comes_and_goes_on_no_link_is_bounded_by_its_switches() -> None:
    gaps = FaultRecord("f1", LossyPathSpells(1, 10 * MS, 10 * MS), switches=("t0-0@p0", "t0-1@p0"))
    EMULATION.check_changes([gaps] * 5)
    with pytest.raises(FaultLimitError, match="Links would come and go more often than 1000 times a second"):
        EMULATION.check_changes([gaps] * 6)


def test_flaps_are_bounded_all_together() -> None:
    fast = [FaultRecord("f1", Flap("h1@p0", 10 * MS, 10 * MS), ("h1@p0",))]
    EMULATION.check_changes(fast * 10)
    with pytest.raises(FaultLimitError, match="more often than 1000 times a second"):
        EMULATION.check_changes(fast * 11)
    SIMULATION.check_changes(fast * 1000)
    slow = [FaultRecord("f1", Flap("*", 1 << 40, 1 << 40, True), tuple(map(str, range(2000))))]
    EMULATION.check_changes(slow)
    with pytest.raises(FaultLimitError, match="at random than 2000"):
        EMULATION.check_changes(slow * 2)
