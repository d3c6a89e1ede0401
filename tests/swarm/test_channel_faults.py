import pytest

from mrc_host.config import Dscp
from mrc_host.verbs_types import CompletionStatus, QpState
from simulation.errors import FaultError
from tests.simulation.worlds import GIGA, Pair, small_world, transfer
from tests.swarm.channel_faults import BitFlips, ChannelFaults, ClassLoss, HarmedChannel, TrafficClass
from tests.swarm.scenario import FOREVER, ScenarioFault
from topologies.errors import FabricError
from topologies.fabric import LinkEnd


def harm(world, fault, start=0, end=FOREVER):
    faults = ChannelFaults(world)
    faults.plan(ScenarioFault(fault, start, end))
    return faults


def test_each_class_has_its_own_loss():
    data, control = (kind.values(Dscp()) for kind in TrafficClass)
    assert len({*data, *control}) == 6


def test_only_frames_of_the_class_are_lost():
    """Control passes where data is lost: the transfer goes over the other plane, and answers come back over both."""
    with small_world(rate=100 * GIGA) as world:
        faults = harm(world, ClassLoss("h1@p0", TrafficClass.DATA))
        result = world.run(transfer(world))
        assert result.equal
        up, down = faults.channels[LinkEnd("h1", 0)], faults.channels[LinkEnd("t0-0@p0", 1)]
        assert up.harmed > 0
        assert down.harmed == 0
        assert world.link_stats("h1@p0")[0].frames > up.harmed, "probes of the control class went through"


def test_losses_of_several_faults_are_independent():
    with small_world() as world:
        harmed = HarmedChannel(world.channel(LinkEnd("h1", 0)), Dscp(), 1)
        harmed.faults += [ClassLoss("h1@p0", TrafficClass.DATA, 0.5)] * 2
        got = []
        frame = bytes(14) + (0x6 << 28 | Dscp().trimmable << 22).to_bytes(4, "big") + bytes(60)
        for _ in range(2000):
            harmed.arrived(frame, lambda port, frame: got.append(frame))
    assert len(got) + harmed.harmed == 2000
    assert 400 < len(got) < 600  # a quarter; five standard deviations are 97


def test_flipped_bits_may_be_anywhere():
    with small_world() as world:
        harmed = HarmedChannel(world.channel(LinkEnd("h1", 0)), Dscp(), 1)
        harmed.faults.append(BitFlips("h1@p0", 0.5))
        got = []
        for _ in range(4000):
            harmed.arrived(bytes(100), lambda port, frame: got.append(frame))
    changed = [frame for frame in got if any(frame)]
    assert len(got) == 4000
    assert len(changed) == harmed.harmed
    assert {sum(byte.bit_count() for byte in frame) for frame in changed} == {1}
    assert {next(place for place, byte in enumerate(frame) if byte) for frame in changed} == set(range(100))


def test_probabilities_outside_0_to_1_are_refused():
    with small_world() as world, pytest.raises(FabricError, match="a probability is above 0"):
        harm(world, ClassLoss("*", TrafficClass.DATA, 1.5))


def test_the_product_makes_no_such_faults():
    with small_world() as world, pytest.raises(FaultError, match="simulation cannot make the fault ClassLoss"):
        world.faults.add(ClassLoss("*", TrafficClass.DATA))


def test_a_connection_needs_both_classes():
    with small_world(rate=100 * GIGA) as world:
        harm(world, ClassLoss("h1@*", TrafficClass.CONTROL, towards="h1"))
        pair = Pair(world, length=64)
        pair.write()
        assert pair.cq.wait(100).status is CompletionStatus.RETRY_EXCEEDED
        assert pair.qp.state is QpState.ERROR


def test_a_harmed_channel_is_as_before_when_its_faults_are_over():
    with small_world(rate=100 * GIGA) as world:
        faults = harm(world, BitFlips("h1@p0", 1.0), 10, 2000)
        faults.plan(ScenarioFault(ClassLoss("h1@p0", TrafficClass.DATA), 5, 1000))
        result = world.run(transfer(world))
        assert result.equal
        harmed = [channel.harmed for channel in faults.channels.values()]
        assert sum(harmed) > 0
        assert world.run(transfer(world)).equal
        assert [channel.harmed for channel in faults.channels.values()] == harmed
        assert not any(channel.faults for channel in faults.channels.values())
