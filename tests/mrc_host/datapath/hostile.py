"""What an enemy sends to a NIC whose packets the datapath in C carries, and calls that no friend makes."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

from mrc_host.config import EvOrder, ProtocolSettings
from mrc_host.nic import Nic
from mrc_host.transport.native_datapath import NativeDatapath
from mrc_host.verbs_types import QpAttributes, QpState, QpType
from mrc_host.wire import opcodes
from mrc_host.wire.encap import PREFIX_DROPS, Drop, Flow
from tests.models import frames as model
from tests.models.frames import IPV6, KIND_BYTE, MAPPED, SRV6_PREFIX
from tests.mrc_host.datapath.arriving import arriving, changed
from tests.mrc_host.datapath.in_place import HEAD, InPlaceWorld
from tests.mrc_host.datapath.pieces import give
from tests.mrc_host.nic_world import MS, US, Faults, World, connect
from tests.mrc_host.test_formats import EVS, FORMATS, config
from tests.mrc_host.test_nic_fuzz import Secrets, seal

Give = Callable[[Nic, int, bytes, int], None]
RC_BTH = 62  # where it begins: Ethernet 14, IPv6 40, UDP 8
NUMBERS = (0, 1, -1, 15, 16, 63, 64, 4031, 4032, 4096, 1 << 24, (1 << 31) - 1, (1 << 32) - 1, 1 << 62, (1 << 64) - 1)


def in_pieces(cuts: random.Random) -> Give:
    """Has a NIC get its frames as in the simulation's core."""

    def cut(nic: Nic, port: int, frame: bytes, now: int) -> None:
        at = cuts.choice([0, 192, len(frame), cuts.randint(0, len(frame)), cuts.randint(100, 145)])
        give(nic, port, frame, at, now)

    return cut


def frames_of_messages_under_way(chance: random.Random, psn: int | None, receive: Give = Nic.receive) -> list[Any]:
    """Forged packets for messages that are half here; returns all that shows of the NIC that got them, by `receive`."""
    world = World(planes=2, faults=Faults(mark=chance.choice([0.0, 0.5])))
    attributes = QpAttributes(path_mtu=256, send_psn=psn, receive_psn=psn)
    a, b = connect(world, size=1 << 14, attributes=attributes)
    secrets = Secrets(world)
    frames: list[tuple[int, bytes]] = []
    world.arrival = lambda number, port, frame: frames.append((port, frame)) if number == 1 else None
    a.write(b, 1 << 14)
    a.write(b, 600, offset=5)
    world.run(until=lambda: len(frames) > chance.randrange(2, 60))
    nic, answers = world.nics[1], []
    for _ in range(30):
        port, frame = chance.choice(frames)
        changed = _forged(bytearray(frame), secrets, chance) if frame[102] <= 0xCB else frame
        receive(nic, port, changed, world.now)
        for p in range(2):
            while (answer := nic.transmit(p, world.now)) is not None:
                answers.append((p, answer))
    assert secrets.untouched()
    assert nic.nic_counters()["drop_internal_error"] == 0
    return [answers, bytes(b.buffer), dict(nic.nic_counters()), nic.hw_counters(None, world.now)]


def rc_packets_of_a_message_under_way(chance: random.Random, psn: int | None, receive: Give = Nic.receive) -> list[Any]:
    """The same for an RC queue pair: packets from the middle of its message, in order, many with one thing wrong."""
    world = World(planes=2)
    attributes = QpAttributes(path_mtu=256, send_psn=psn, receive_psn=psn)
    a, b = connect(world, size=1 << 14, kind=QpType.RC, attributes=attributes)
    secrets = Secrets(world)
    frames: list[tuple[int, bytes]] = []
    world.arrival = lambda number, port, frame: frames.append((port, frame)) if number == 1 else None
    other = connect(world, size=1024)
    other[0].write(other[1], 100)
    world.run(until=other[0].idle)
    routed = next(frame for _port, frame in frames if frame[KIND_BYTE] == IPV6)
    frames.clear()
    a.write(b, 256 * chance.choice([12, 24, 64]))
    world.run(until=lambda: len(frames) > chance.randrange(2, 20))
    middle = [frame for _port, frame in frames if frame[RC_BTH] == opcodes.RC_WRITE_MIDDLE]
    port, last = frames[-1]
    favourite = chance.randrange(9)
    expected = int.from_bytes(last[RC_BTH + 9 : RC_BTH + 12], "big") + 1
    nic, answers, gone, behind = world.nics[1], [], False, 0
    for _ in range(40 if middle else 0):
        behind = behind - 1 if behind else chance.choice([0] * 15 + [10])  # packets that arrive before the one missing
        right = chance.random() < 0.7
        wrong = -1 if right else chance.choice([favourite, chance.randrange(9)])
        frame = _rc_middle(bytearray(middle[0]), expected + behind, wrong, routed, chance)
        if behind and frame[KIND_BYTE] != IPV6 and chance.random() < 0.7:
            frame = _rc_of_any_kind(bytearray(frame), chance)
        receive(nic, port if chance.random() < 0.9 else 1 - port, frame, world.now)
        expected += right and not behind
        what = chance.randrange(60)
        if what == 0 and not gone:
            gone = True
            nic.deregister_memory(b.region.lkey)
        elif what == 1:
            nic.modify_qp(b.qpn, QpState.ERROR, world.now)
        elif what == 2:
            answers.append(nic.hw_counters(b.qpn, world.now))
        for p in range(2):
            while chance.random() < 0.8 and (answer := nic.transmit(p, world.now)) is not None:
                answers.append((p, answer))
    assert secrets.untouched()
    assert nic.nic_counters()["drop_internal_error"] == 0
    return [answers, bytes(b.buffer), dict(nic.nic_counters()), nic.hw_counters(None, world.now)]


def packets_in_place(chance: random.Random) -> None:
    """Packets in place arrive with heads that are forged or cut, while messages, memory and a queue pair end."""
    faults = Faults(seed=chance.getrandbits(32), duplicate=0.2, corrupt=0.1, delay=0.3, extra=100_000, trim=0.05)
    world = InPlaceWorld(planes=2, faults=faults)
    world.rules_kept = False
    kind = chance.choice([QpType.MRC, QpType.MRC, QpType.RC])
    a, b = connect(world, size=1 << 14, kind=kind, attributes=QpAttributes(path_mtu=chance.choice([256, 1024, 4096])))
    secrets = Secrets(world)
    arrived: list[tuple[int, bytes]] = []
    world.arrival = lambda number, port, frame: arrived.append((port, frame)) if number == 1 else None
    for _ in range(4):
        a.write(b, chance.randrange(1, 1 << 14))
        world.run(chance.randrange(40) * US)
        for port, frame in chance.sample(arrived, min(len(arrived), 8)):
            if packets := [packet for rest, packet in world.packets.items() if len(rest) <= len(frame)]:
                change = _forged if frame[KIND_BYTE] == IPV6 else _rc_forged
                head = change(bytearray(frame), secrets, chance)[:HEAD]
                chance.choice(packets).carry(b.nic, port, head[: chance.choice([HEAD, HEAD, chance.randrange(HEAD)])])
        a.poll()
        a.buffer[:] = chance.randbytes(1 << 14)
    if chance.random() < 0.5:
        a.nic.deregister_memory(a.region.lkey)
    else:
        a.nic.modify_qp(a.qpn, chance.choice([QpState.RESET, QpState.ERROR]), world.now)
    a.buffer[:] = chance.randbytes(1 << 14)
    world.run(MS)
    assert secrets.untouched()


def prefixes_of_all_formats(chance: random.Random) -> None:
    """Frames of each format, changed before or in the BTH: what becomes of them is what the model says."""
    for ev_format, addresses in FORMATS:
        settings = ProtocolSettings(ev_format=ev_format, ev_order=chance.choice(list(EvOrder)))
        near, far = (config(number, addresses, settings, EVS) for number in (0, 1))
        datapath = NativeDatapath(far)
        for _ in range(10):
            port, frame = arriving(near, far, chance)
            given = changed(frame, far, chance)
            found, expected = datapath.receive(port, given), model.receive(far, port, given)
            if isinstance(expected, Drop):
                assert found is expected, given.hex()
            else:
                names = Flow.__slots__
                assert [getattr(found, name) for name in names] == [getattr(expected, name) for name in names]


def wrong_arguments(module: ModuleType, chance: random.Random) -> None:
    """Numbers of any size, in any order: an exception or none, but no harm."""
    prefix = bytearray(chance.randbytes(chance.choice([20, 21, 42, 62, 102, 126, 127])))
    if len(prefix) > 20:
        prefix[20] = {42: 0, 102: 41, 126: 43}.get(len(prefix), 9)
    buffer = bytearray(chance.randrange(1, 5000))
    made: dict[str, Any] = {"receiver": module.Receiver(2, 1), "region": module.Region(memoryview(buffer))}

    def number() -> int:
        return chance.choice(NUMBERS) + chance.choice([0, 0, -1, 1])

    def addresses() -> bytes:
        return chance.choice([bytes(16), MAPPED + bytes(4), bytes(15)])

    state = rc_state = None
    for _ in range(40):
        what = chance.randrange(11)
        try:
            if what == 0:
                made["template"] = module.Template(
                    *(bytes(chance.choice([0, 12, 15, 16])) for _ in range(3)), number() % 4, addresses(), addresses(),
                    *(number() % (1 << 32) >> chance.choice([0, 16, 31]) for _ in range(6)),
                )  # fmt: skip
            elif what == 1:
                made["message"] = module.Message(
                    memoryview(buffer), *(number() % (1 << 32) for _ in range(8)), module.Outbox()
                )
            elif what == 2 and "template" in made and "message" in made:
                build = chance.choice([module.data_frame, module.rc_data_frame])
                build(made["template"], made["message"], number(), number(), *([bytes(prefix)] * chance.randrange(2)))
            elif what == 3:
                made["receiver"].expect(
                    Flow, PREFIX_DROPS, bytes(chance.choice([15, 16])), number() % (1 << 31), False, True, True,
                    number() % (1 << 64), [bytes(12), bytes(prefix[:12]).ljust(12) if chance.random() < 0.9 else None],
                )  # fmt: skip
                module.read_prefix(bytes(prefix))
                module.icrc(bytes(chance.choice([28, 48])), bytes(prefix[: chance.randrange(30)]))
            elif what == 4 and state is None:
                state = module.ReceiveState(
                    made["receiver"], 5, bytes(4), number(), chance.choice([0, 1, 256]), number(), 4096, number() % 3
                )
            elif what == 5 and state is not None:
                state.include(
                    number(), number(), number(), made["region"], *(number() % (1 << 64) for _ in range(2)), 7,
                    number() % (1 << 32),
                )  # fmt: skip
                state.forget(number())
            elif what == 6 and state is not None:
                for _ in range(20):
                    state.add(state.next_psn + chance.randrange(300), number() % 3, number(), 17, number(), False)
                call, count = chance.choice([(state.add, 6), (state.show, 2), (state.sack, 10), (state.next_base, 2)])
                call(*(number() for _ in range(count)))
                state.has(number())
                state.units = state.pending_bytes = abs(number())
                state.trimmed_request = number()
                state.carries = chance.choice([True, False, 1])
                state.close() if chance.random() < 0.1 else None
            elif what == 9 and rc_state is None:
                rc_state = module.RcReceiveState(
                    made["receiver"], 5, bytes(chance.choice([4, 17])), number(), number() % (1 << 20)
                )
            elif what == 10 and rc_state is not None:
                rc_state.add(chance.choice([made["region"], None]), number(), number())
                rc_state.gap = chance.choice([True, False, None])
                chance.choice([rc_state.drop_ahead, rc_state.close])()
            elif what == 7 and "template" in made:
                module.frame(made["template"], bytes(max(0, number() % (1 << 17))))
            else:
                frame = bytes(prefix) + chance.randbytes(chance.randrange(200))
                made["receiver"].receive(chance.randrange(2), frame)
        except (ValueError, TypeError, OverflowError):
            pass


def _forged(frame: bytearray, secrets: Secrets, chance: random.Random) -> bytes:
    """Another packet of the same message, as it should be or with one thing wrong."""
    ahead = chance.choice([0, 1, 2, 5, 64, 200, 5000, 40_000])
    word = int.from_bytes(frame[110:114], "big")
    frame[110:114] = (word & 0x70000000 | (word + ahead) & 0xFFFFFF).to_bytes(4, "big")
    address = int.from_bytes(frame[122:130], "big") + 256 * ahead
    wrong = chance.randrange(12)
    if wrong == 0:
        address += chance.choice([-256, -1, 1, 256, 1 << 40])
    elif wrong == 1:
        frame[130:134] = chance.choice(secrets.regions).rkey.to_bytes(4, "big")
    elif wrong == 2:
        frame[134:138] = chance.choice([0, 1, 1 << 14, 1 << 31, (1 << 32) - 1]).to_bytes(4, "big")
    elif wrong == 3:
        frame[102] = 0xC6 + chance.randrange(6)
    elif wrong == 4:
        frame[103] = chance.choice([0x10, 0x30, 0x01, 0x80])
    elif wrong == 5:
        frame[116:118] = chance.getrandbits(16).to_bytes(2, "big")
    elif wrong == 6:
        frame[110] = chance.getrandbits(8)
    frame[122:130] = (address % (1 << 64)).to_bytes(8, "big")
    return seal(frame)


def _rc_forged(frame: bytearray, secrets: Secrets, chance: random.Random) -> bytes:
    """Another packet of RC, with any PSN."""
    return _rc_middle(frame, chance.getrandbits(24), chance.randrange(-1, 8), b"", chance)


def _rc_of_any_kind(frame: bytearray, chance: random.Random) -> bytes:
    """A packet that claims to be first, last or whatever, often with about as many bytes as that has headers."""
    kind = chance.randrange(6)
    frame[RC_BTH] = opcodes.RC_WRITE_FIRST + kind
    bytes_left = (16, 0, 0, 4, 16, 20)[kind] + chance.choice([-4, 0, 0, 4])
    if chance.random() < 0.7 and len(frame) > RC_BTH + 60:
        _cut_rc(frame, len(frame) - RC_BTH - 16 - max(0, bytes_left))
    return seal(frame) if len(frame) > RC_BTH + 16 else bytes(frame)


def _cut_rc(frame: bytearray, less: int) -> None:
    """Without its last `less` bytes, which its headers do not claim either."""
    del frame[-less:]
    for at, size in ((18, len(frame) - 54), (58, len(frame) - 54)):  # of IPv6's payload, of UDP
        frame[at : at + 2] = max(size, 0).to_bytes(2, "big")


def _rc_middle(frame: bytearray, psn: int, wrong: int, routed: bytes, chance: random.Random) -> bytes:
    """The packet `psn` from the middle of a message, with other bytes, and perhaps with one thing wrong.

    `routed` is a frame with an outer header.
    """
    frame[RC_BTH + 9 : RC_BTH + 12] = (psn & 0xFFFFFF).to_bytes(3, "big")
    frame[RC_BTH + 8] = chance.choice([0, 0, 0, 0x80])
    frame[RC_BTH + 20 : -4] = chance.randbytes(max(0, len(frame) - RC_BTH - 24))
    if wrong == 0:
        ahead = chance.choice([-40_000, -2, -1, 1, 2, 8, 1 << 23])
        frame[RC_BTH + 9 : RC_BTH + 12] = ((psn + ahead) & 0xFFFFFF).to_bytes(3, "big")
    elif wrong == 1:
        frame[RC_BTH] = chance.choice([0x06, 0x08, 0x09, 0x0A, 0x0B, 0x11, 0x81, 0xC7])
    elif wrong == 2:
        frame[RC_BTH + 1] = chance.choice([0x10, 0x30, 0x01])
    elif wrong == 3:
        frame[RC_BTH + 2 : RC_BTH + 4] = b"\x80\x01"
    elif wrong == 4:
        frame[RC_BTH + 5 : RC_BTH + 8] = chance.randbytes(3)
    elif wrong == 5:
        frame[22 + 15] ^= 1  # the source address
    elif wrong == 6:
        frame[15] |= 0x30  # CE
    elif wrong == 7:
        _cut_rc(frame, 4 * chance.randrange(1, 64))
    elif wrong == 8:
        frame[:RC_BTH] = routed[:SRV6_PREFIX]
        for at, before in ((18, 54), (58, 94), (98, 94)):  # lengths of outer and inner payload, and UDP
            frame[at : at + 2] = (len(frame) - before).to_bytes(2, "big")
    return seal(frame) if len(frame) > RC_BTH + 16 else bytes(frame)
