"""The silences of NICs that take their time to leave a port (`port_remap`), as cuts of all their links.

A NIC is silent for that time from each moment on in which one of its ports loses its carrier. Of a link that comes and
goes at random it is not known when that is: as long as it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from simulation.fault_limits import SIMULATION
from tests.swarm.application_faults import HOST_FAULTS
from tests.swarm.channel_faults import CHANNEL_FAULTS
from tests.swarm.denylists import Denied
from tests.swarm.scenario import Scenario, ScenarioFault
from topologies.fabric import Fabric, LinkKind
from topologies.faults.kind import Intermittent
from topologies.faults.link_down import LinkDown


def with_silences(scenario: Scenario) -> Scenario:
    """The plan with a cut for each silence, for those who judge what it explains."""
    remap = scenario.fabric.settings.transport.port_remap
    if not remap:
        return scenario
    silences = [
        ScenarioFault(LinkDown(f"{nic}@*"), start, end + remap)
        for planned in scenario.faults
        for nic, start, end in _beginnings(scenario.fabric, planned)
    ]
    return replace(scenario, faults=(*scenario.faults, *silences))


def _beginnings(fabric: Fabric, planned: ScenarioFault) -> Iterator[tuple[str, int, int]]:
    """NICs, and from when until when a silence of theirs may begin because of a fault."""
    if isinstance(planned.fault, (Denied, *HOST_FAULTS, *CHANNEL_FAULTS)):
        return
    links = [fabric.link(name) for name in SIMULATION.effect_of(fabric, planned.fault).down]
    again = isinstance(planned.fault, Intermittent)
    for nic in sorted({link.lower.node for link in links if link.kind is LinkKind.NIC_T0}):
        yield nic, planned.start, planned.end if again else planned.start
