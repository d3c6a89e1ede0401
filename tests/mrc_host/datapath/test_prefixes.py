"""Prefixes that the datapath in C checks and templates that it builds, against the model, in every format."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from types import ModuleType

import pytest

from mrc_host.config import EvFormat, EvOrder, NicConfig, ProtocolSettings
from mrc_host.nic import Nic
from mrc_host.transport.native_datapath import NativeDatapath
from mrc_host.transport.peer_frames import CONTROL, DATA, NO_TRIM, RETRANSMISSION
from mrc_host.wire.encap import PREFIX_DROPS, Drop, Flow
from tests.models import frames
from tests.models.frames import SRV6_PREFIX
from tests.mrc_host.datapath.arriving import arriving, changed, delivered
from tests.mrc_host.datapath.module import native, used
from tests.mrc_host.nic_world import World
from tests.mrc_host.test_formats import EVS, FORMATS, IDS, V6, Wire, config

ROLES = (DATA, RETRANSMISSION, CONTROL, NO_TRIM)
EXPECTED = (PREFIX_DROPS, V6[0], 4791, False, True, True, 0)
HEADS = [bytes(12), bytes(12)]


@pytest.fixture
def module() -> ModuleType:
    return native()


@pytest.fixture(params=list(zip(FORMATS, IDS, strict=True)), ids=lambda given: given[1])
def ends(request: pytest.FixtureRequest) -> tuple[NicConfig, NicConfig]:
    """Two NICs of a format."""
    (ev_format, addresses), _ = request.param
    settings = ProtocolSettings(ev_format=ev_format)
    return config(0, addresses, settings, EVS), config(1, addresses, settings, EVS)


def shown(found: object) -> object:
    """A drop, or the fields of a flow."""
    if isinstance(found, Drop):
        return found
    assert isinstance(found, Flow)
    return [getattr(found, name) for name in Flow.__slots__]


@pytest.mark.parametrize("order", EvOrder)
def test_prefixes_are_found_right_or_wrong_as_by_the_model(
    module: ModuleType, ends: tuple[NicConfig, NicConfig], order: EvOrder
) -> None:
    """Whatever is changed before or in the BTH, whatever the lengths, the ICRC right again or not; known or not."""
    near, far = (replace(end, settings=replace(end.settings, ev_order=order)) for end in ends)
    kinds: Counter[object] = Counter()
    with used(module):
        knows = NativeDatapath(far)
        for number in range(400):
            chance = random.Random(number)
            port, frame = arriving(near, far, chance)
            for given in (frame, changed(frame, far, chance)):
                expected = shown(frames.receive(far, port, given))
                assert shown(NativeDatapath(far).receive(port, given)) == expected, number
                assert shown(knows.receive(port, memoryview(given))) == expected, number
                kinds[expected if isinstance(expected, Drop) else "flow"] += 1
    assert kinds["flow"] > 300
    assert kinds.keys() >= set(PREFIX_DROPS), "each of them occurs"


def test_a_prefix_met_once_is_known(module: ModuleType, ends: tuple[NicConfig, NicConfig]) -> None:
    near, far = ends
    with used(module):
        datapath = NativeDatapath(far)
    port, frame = arriving(near, far, random.Random(1))
    assert datapath.receive(port, frame) is datapath.receive(port, frame)


def test_trimmed_frames_are_not_kept(module: ModuleType, ends: tuple[NicConfig, NicConfig]) -> None:
    """They end where the switch cut them, whatever their lengths say."""
    near, far = ends
    to = near.destinations[0]
    port, ev = to.template.plane(to.evs[0]), to.evs[0]
    dscp = far.settings.dscp.trimmed
    frame = frames.build(near, port, to.template, to.address, ev, dscp, 0, bytes(4 * 30))
    arrived = delivered(frame, far, port, far.settings.ev_format.routed)
    with used(module):
        datapath = NativeDatapath(far)
    for length in (len(arrived), len(arrived) - 50, len(arrived) - 20):
        flow = datapath.receive(port, arrived[:length])
        assert isinstance(flow, Flow)
        assert (flow.trimmed, flow.end) == (True, length)


@pytest.mark.parametrize(("ev_format", "addresses"), FORMATS, ids=IDS)
def test_frames_of_all_paths_and_classes_are_those_of_the_model(
    module: ModuleType, ev_format: EvFormat, addresses: tuple[bytes, ...]
) -> None:
    with used(module):
        nic = Wire(ev_format, addresses).nics[0]
    check_frames(nic, random.Random(1))


@pytest.mark.parametrize("ev_format", [EvFormat.SRV6, EvFormat.SRV6_SRH])
@pytest.mark.parametrize("order", EvOrder)
def test_frames_of_more_values_of_a_path_are_those_of_the_model(
    module: ModuleType, ev_format: EvFormat, order: EvOrder
) -> None:
    """A NIC derives them from the template of the path's first value, which may never have been used."""
    near = config(0, V6, ProtocolSettings(ev_format=ev_format, ev_order=order), EVS)
    destination = near.destinations[0]
    template = replace(destination.template, ev_uplink_bits=3)
    with used(module):
        nic = Nic(replace(near, destinations=(replace(destination, template=template),)), seed=1)
    assert check_frames(nic, random.Random(2)) == 16 * len(EVS)


def check_frames(nic: Nic, chance: random.Random) -> int:
    """Control frames of every value and class, in any order; how many values there are."""
    (to,) = nic.config.destinations
    peer = nic._peers.get(to.address)
    assert peer is not None
    values = peer.paths.values
    dscp = nic.config.settings.dscp
    order = [(index, role) for index in range(len(values)) for role in ROLES]
    chance.shuffle(order)
    for index, role in order:
        body, ev = chance.randbytes(12 + 4 * chance.randrange(20)), values[index]
        named = (dscp.trimmable, dscp.retransmit, dscp.control, dscp.no_trim)[role]
        ecn = 0 if role == CONTROL else 2
        expected = frames.build(nic.config, to.template.plane(ev), to.template, to.address, ev, named, ecn, body)
        assert peer.frames.frame(index, role, body) == expected
    return len(values)


def test_a_template_takes_only_what_fits_its_fields(module: ModuleType) -> None:
    v4 = frames.MAPPED + bytes(4)
    right = {
        "ethernet": bytes(12), "outer": bytes(16), "segment": bytes(16), "left": 1, "source": V6[0],
        "destination": V6[1], "label": 0xFFFF, "sport": 0xFFFF, "dport": 0xFFFF, "dscp": 63, "ecn": 3, "hops": 255,
    }  # fmt: skip
    module.Template(*right.values())
    for change in (
        {"ethernet": bytes(14)}, {"outer": bytes(15)}, {"outer": b""}, {"segment": bytes(15)}, {"left": 2},
        {"source": bytes(4)}, {"destination": bytes(17)}, {"label": 1 << 16}, {"sport": 1 << 16}, {"dport": 1 << 16},
        {"dscp": 64}, {"ecn": 4}, {"hops": 256}, {"label": -1}, {"source": v4},
        {"source": v4, "outer": b"", "segment": b"", "destination": v4},
        {"source": v4, "outer": b"", "segment": b"", "label": 0},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"bytes|IPv4|fewer bits"):
            module.Template(*{**right, **change}.values())
    plain = module.Template(*{**right, "outer": b"", "segment": b""}.values())
    ipv4 = module.Template(
        *{**right, "outer": b"", "segment": b"", "source": v4, "destination": v4, "label": 0}.values()
    )
    for template, entropy in (
        (plain, (-1, 0)), (plain, (1 << 16, 0)), (plain, (0, 1 << 16)), (plain, (0, -1)), (plain, (0, 1 << 62)),
        (ipv4, (1, 0)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="no such entropy value"):
            template.with_entropy(*entropy)
    for several in ((), (0,), (0, 0, 0), ("a", 0), (0, None)):
        with pytest.raises(TypeError):
            plain.with_entropy(*several)
    with pytest.raises(OverflowError):
        plain.with_entropy(1 << 64, 0)


def test_what_no_nic_expects_is_refused(module: ModuleType) -> None:
    receiver = module.Receiver(2, 1)
    with pytest.raises(ValueError, match="expects nothing yet"):
        receiver.receive(0, bytes(100))
    drops, address, port, *flags = EXPECTED
    for arguments in (
        (drops, bytes(15), port, *flags, HEADS), (drops, address, -1, *flags, HEADS),
        (drops, address, 1 << 16, *flags, HEADS), (drops, address, port, *flags, HEADS[:1]),
        (drops[1:], address, port, *flags, HEADS), (drops, address, port, *flags, [bytes(12), bytes(11)]),
        (drops, address, port, *flags, [bytes(12), "x"]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"A NIC expects|12 bytes"):
            receiver.expect(Flow, *arguments)
    with pytest.raises(ValueError, match="expects nothing yet"):
        receiver.receive(0, bytes(100))


@pytest.fixture
def expecting() -> tuple[NicConfig, int, bytes]:
    """A NIC of two ports, and a frame for one of them."""
    near, far = (config(number, V6, ProtocolSettings(), EVS) for number in (0, 1))
    port, frame = arriving(near, far, random.Random(3))
    return far, port, frame


def heads(far: NicConfig) -> list[bytes]:
    """By port: destination of the Ethernet header, and the part of the outer destination that names the port."""
    return [port.mac + far.block.to_bytes(4, "big") + port.usid.to_bytes(2, "big") for port in far.ports]


def test_a_class_of_flows_that_fails_is_heard(module: ModuleType, expecting: tuple[NicConfig, int, bytes]) -> None:
    """Its exception reaches the caller, and a later one is asked again."""
    far, port, frame = expecting
    receiver = module.Receiver(2, 1)

    def fail(*_: object) -> object:
        raise ZeroDivisionError

    given = (PREFIX_DROPS, far.address, far.settings.udp_port, False, True, True, 0, heads(far))
    receiver.expect(fail, *given)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            receiver.receive(port, frame)
    receiver.expect(Flow, *given)
    assert isinstance(receiver.receive(port, frame), Flow)


def test_a_class_of_flows_may_make_the_receiver_forget_what_it_knows(
    module: ModuleType, expecting: tuple[NicConfig, int, bytes]
) -> None:
    """Which includes the flow that is being described."""
    far, port, frame = expecting
    receiver = module.Receiver(2, 7)
    made = []

    def meet_others(*_: object) -> object:
        if not made:
            made.append("the first")
            for number in range(16_400):  # other MAC addresses of the sender
                receiver.receive(port, frame[:6] + number.to_bytes(6, "big") + frame[12:])
        return "made"

    receiver.expect(meet_others, PREFIX_DROPS, far.address, far.settings.udp_port, False, True, True, 0, heads(far))
    assert receiver.receive(port, frame) == "made"


def test_frames_beyond_64_kib_are_received(module: ModuleType) -> None:
    """The longest that IPv6 has room for, and one byte more than that."""
    with used(module):
        world = World(planes=1)
    near, far = (nic.config for nic in world.nics)
    (to,) = (one for one in near.destinations if one.address == far.address)
    for size, outcome in ((65_435, Flow), (65_459, Flow)):
        body = bytes(size)
        frame = frames.build(near, 0, to.template, to.address, to.evs[0], 0, 0, body)
        arrived = delivered(frame, far, 0, True)
        datapath = NativeDatapath(far)
        for _ in range(2):
            found = datapath.receive(0, arrived)
            assert isinstance(found, outcome)
            assert found.end == SRV6_PREFIX + size
        assert datapath.receive(0, arrived[:-1]) is Drop.LENGTH
