"""Captures of simulated links: every frame is in them, with the reason why it was dropped, trimmed or marked."""

import hashlib
from collections import Counter

import pytest

from simulation.link_capture import SimulatedCapture
from simulation.trace import Trace
from simulation.world import SimulatedWorld
from tests.mrc_host.captures import tshark
from tests.mrc_host.captures.tshark import needs_tshark
from tests.simulation.worlds import GIGA, US, Pair, small_fabric, small_world, transfer

TRUNK = "t0-0:t1-0@p0"


def shown(path):
    """(interface, time in ns, DSCP and ECN, comment) of every packet, as tshark reads them."""
    fields = ("frame.interface_id", "frame.time_epoch", "ipv6.tclass", "frame.comment")
    output = tshark.run(path, "-T", "fields", "-E", "occurrence=f", "-E", "separator=|", *(
        word for name in fields for word in ("-e", name)
    ))  # fmt: skip
    rows = [line.split("|", 3) for line in output.splitlines()]
    return [
        (int(number), round(float(time) * 1e9), int(tclass, 16) if tclass else 0, text)
        for number, time, tclass, text in rows
    ]


def captured(path, world, run, link=TRUNK):
    with path.open("wb") as stream:
        capture = SimulatedCapture(world, link, stream)
        run()
    return capture


@needs_tshark
def test_what_arrives_is_what_the_world_s_own_trace_has_and_what_is_lost_has_its_reason(tmp_path):
    from scapy.utils import RawPcapNgReader

    trace = Trace(True)
    with small_world(3, trace=trace) as world:
        world.faults.loss(TRUNK, 0.05)
        capture = captured(tmp_path / "a.pcapng", world, lambda: world.run(transfer(world, length=2_000_000)))
        sent = [world.channel(end) for end in (world.fabric.link(TRUNK).lower, world.fabric.link(TRUNK).upper)]
        lost = {
            f"dropped by {channel.target.node}: arrival loss": stats.lost
            for channel, stats in zip(sent, world.link_stats(TRUNK), strict=True)
        }
        ends = {channel.target.node: channel.target.port for channel in sent}
        on_the_way = capture.packets - sum(channel.frames for channel in sent)
    rows = shown(tmp_path / "a.pcapng")
    assert any(lost.values())
    assert Counter(text for *_, text in rows if text) == +Counter(lost)
    assert on_the_way <= 0
    frames = [frame for frame, _ in RawPcapNgReader(str(tmp_path / "a.pcapng"))]
    arrived = [
        (time, hashlib.blake2b(frame, digest_size=8).digest())
        for frame, (_, time, *_) in zip(frames, rows, strict=True)
    ]
    expected = [(r.time, r.digest) for r in trace.records() if ends.get(r.device) == r.port]
    assert sorted(arrived) == sorted(expected)


@needs_tshark
def test_frames_on_a_link_that_goes_down_say_so(tmp_path):
    with small_world(4) as world:
        world.faults.link_down(TRUNK, at=20 * US, until=60 * US)
        captured(tmp_path / "a.pcapng", world, lambda: world.run(transfer(world, length=2_000_000)))
        channels = [world.channel(end) for end in (world.fabric.link(TRUNK).lower, world.fabric.link(TRUNK).upper)]
        lost = sum(channel.lost for channel in channels)
    reasons = Counter(text for *_, text in shown(tmp_path / "a.pcapng") if text)
    assert lost
    assert reasons.total() == lost
    assert set(reasons) <= {
        "lost on the link: on its way when the link went down",
        "lost on the link: nothing passes: link down or power off",
    }


@needs_tshark
def test_corrupted_frames_say_so(tmp_path):
    with small_world(5) as world:
        world.faults.corruption(TRUNK, 0.05)
        captured(tmp_path / "a.pcapng", world, lambda: world.run(transfer(world, length=400_000)))
        corrupted = sum(stats.corrupted for stats in world.link_stats(TRUNK))
    texts = [text for *_, text in shown(tmp_path / "a.pcapng") if text]
    assert corrupted
    assert sum("a fault flipped one bit" in text for text in texts) == corrupted


def congested(seed):
    """One plane in which three hosts send to h4 across a trunk of a quarter of their rate."""
    fabric = small_fabric(planes=1, t1=1, hosts=8)
    return SimulatedWorld(fabric, seed=seed, rate=25 * GIGA)


def send_all(world, target, sources, length=600_000):
    async def everything():
        pairs = [Pair(world, source, target, length=length) for source in sources]
        for pair in pairs:
            pair.write()
        for pair in pairs:
            await pair.cq.next()

    world.run(everything())


def counter(world, switch, name, port):
    device = world.switch(switch)
    full = next(one.name for one in device.pipeline.program.counters if one.name.endswith(f".{name}"))
    return device.control_plane.externs.counter_read(full, port).packets


@pytest.mark.second_ring
@needs_tshark
def test_trimmed_frames_say_which_switch_trimmed_them_on_both_sides_of_it(tmp_path):
    with congested(6) as world:
        into = world.fabric.link("h4@p0")
        with (tmp_path / "into.pcapng").open("wb") as after, (tmp_path / "from.pcapng").open("wb") as before:
            SimulatedCapture(world, "h4@p0", after)
            SimulatedCapture(world, "h1@p0", before)
            send_all(world, "h4", [f"h{number}" for number in range(1, 9) if number != 4])
        trimmed = counter(world, into.upper.node, "trimmed_packets", into.upper.port)
    assert trimmed
    rows = shown(tmp_path / "into.pcapng")
    texts = [text for *_, text in rows if "trimmed" in text]
    assert set(texts) == {"trimmed by t0-0@p0: its queue towards this link was too long"}
    assert len(texts) == trimmed
    dscps = {tclass >> 2 for *_, tclass, text in rows if "trimmed" in text}
    assert len(dscps) == 1
    assert dscps.isdisjoint({tclass >> 2 for _, _, tclass, text in rows if not text})
    of_h1 = [text for *_, text in shown(tmp_path / "from.pcapng") if "trimmed by t0-0@p0: " in text]
    assert 0 < len(of_h1) < trimmed, "those of h1 alone"
    assert all("bytes in the queue of port" in text for text in of_h1)


@needs_tshark
def test_marked_frames_say_which_switch_marked_them(tmp_path):
    with congested(7) as world:
        link = world.fabric.link(TRUNK)
        captured(tmp_path / "a.pcapng", world, lambda: send_all(world, "h5", ("h1", "h2", "h3", "h4")))
        marked = counter(world, link.lower.node, "marked_packets", link.lower.port)
    rows = shown(tmp_path / "a.pcapng")
    texts = [text for *_, text in rows if "marked by" in text]
    assert marked
    assert len(texts) == marked
    assert all(text.startswith("marked by t0-0@p0: congestion, ") for text in texts)
    assert all(tclass & 3 == 3 for _, _, tclass, text in rows if "marked by" in text)
    assert not any(tclass & 3 == 3 for number, _, tclass, text in rows if number == 0 and "marked by" not in text)


def test_a_capture_changes_nothing_of_the_run(tmp_path):
    def hash_of(capture):
        trace = Trace()
        with small_world(8, trace=trace) as world:
            world.faults.loss("*", 0.01)
            world.faults.flap(TRUNK, 5_000, 9_000, random=True, until=100_000)
            if capture:
                captured(tmp_path / "a.pcapng", world, lambda: world.run(transfer(world)))
            else:
                world.run(transfer(world))
        return trace.cut()

    assert hash_of(True) == hash_of(False)


def test_a_link_that_there_is_not_is_refused(tmp_path):
    from topologies.errors import FabricError

    with small_world() as world, (tmp_path / "a").open("wb") as stream, pytest.raises(FabricError):
        SimulatedCapture(world, "t0-9:t1-0@p0", stream)


@needs_tshark
def test_what_is_corrupted_towards_a_nic_says_so_on_its_link(tmp_path):
    with small_world(6) as world:
        world.faults.corruption("h3@p0", 0.05, towards="h3")
        captured(tmp_path / "a.pcapng", world, lambda: world.run(transfer(world, length=400_000)), "h3@p0")
        there, back = world.link_stats("h3@p0")
    texts = [text for *_, text in shown(tmp_path / "a.pcapng") if "flipped" in text]
    assert back.corrupted == len(texts) > 0
    assert there.corrupted == 0
    assert set(texts) == {"corrupted by t0-1@p0: a fault flipped one bit"}


def test_losses_towards_a_nic_count_on_its_link():
    with small_world(6) as world:
        world.faults.loss("h3@p0", 0.1, towards="h3")
        result = world.run(transfer(world, length=400_000))
        there, back = world.link_stats("h3@p0")
    assert result.equal
    assert (there.lost, back.lost > 0) == (0, True)
