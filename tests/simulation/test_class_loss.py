import pytest

from mrc_host.values import CompletionStatus, QpState
from simulation.channel import Impairment, combine
from simulation.class_loss import ClassLoss, TrafficClass
from simulation.errors import FaultError
from tests.simulation.worlds import GIGA, Pair, small_world, transfer


def test_each_class_has_its_own_loss():
    from mrc_host.config import Dscp

    data, control = (kind.values(Dscp()) for kind in TrafficClass)
    assert len({*data, *control}) == 6


def test_only_frames_of_the_class_are_lost():
    """Control passes where data is lost: the transfer goes over the other plane, and answers come back over both."""
    with small_world(rate=100 * GIGA) as world:
        world.faults.add(ClassLoss("h1@p0", TrafficClass.DATA))
        result = world.run(transfer(world))
        assert result.equal
        up, down = world.link_stats("h1@p0")
        assert up.lost > 0
        assert down.lost == 0
        assert up.frames > up.lost, "probes of the control class went through"


def test_losses_of_several_faults_are_independent():
    whole = combine((Impairment(class_loss={4: 0.5}), Impairment(class_loss={4: 0.5, 46: 1.0})))
    assert whole.class_loss == {4: 0.75, 46: 1.0}


def test_probabilities_outside_0_to_1_are_refused():
    with small_world() as world, pytest.raises(FaultError, match="a probability is above 0"):
        world.faults.add(ClassLoss("*", TrafficClass.DATA, 1.5))


def test_a_connection_needs_both_classes():
    with small_world(rate=100 * GIGA) as world:
        world.faults.add(ClassLoss("h1@*", TrafficClass.CONTROL, towards="h1"))
        pair = Pair(world, length=64)
        pair.write()
        assert pair.cq.wait(100).status is CompletionStatus.RETRY_EXCEEDED
        assert pair.qp.state is QpState.ERROR
