import pytest

from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files.faults import KINDS
from simulation.fault_effects import effect
from tests.mrc_lab.experiments.files.texts import SMALL
from topologies.clos import multi_plane_clos
from topologies.fault_kinds import Fault

EXAMPLES = {
    "link_down": "link: h1@p0, towards: h1",
    "port_down": "node: t0-0@p0, port: 1",
    "switch_dead": "switch: t1-0@p0",
    "switch_silent": "switch: 't1-*@p1'",
    "loss": "link: 't0-0:t1-*@p0', probability: 1%",
    "corruption": "link: h1@p0, probability: 0.5",
    "reordering": "link: h1@p0, probability: 10%, hold: 3us",
    "path_loss": "plane: 1, uplink: 3, probability: 20%, source: h1",
    "rate": "link: h1@p0, rate: 10G",
    "delay": "link: h1@p0, extra: 2us",
    "flap": "link: h1@p0, down: 5us, up: 10us, random: yes",
    "controller_gone": "",
}


def load(kind, arguments):
    line = f"  - {{kind: {kind}, at: 1us, until: 2us, {arguments}}}"
    return (
        load_text(SMALL.replace("  - {kind: link_down, at: 40us, until: 80us, link: h1@p0}", line)).cases[0].faults[0]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_written_and_built(kind):
    fault = load(kind, EXAMPLES[kind])
    built = fault.build()
    assert isinstance(built, Fault)
    done = effect(multi_plane_clos(planes=2, t0=2, t1=4, hosts=4), built)
    assert done.lines or done.carrier or done.controller
    assert (fault.at, fault.until) == (1000, 2000)


def test_there_is_an_example_of_each():
    assert set(EXAMPLES) == set(KINDS)
