"""What an enemy sends to a NIC whose packets the datapath in C carries, and calls that no friend makes."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

from mrc_host.nic import Nic
from mrc_host.values import QpAttributes, QpState
from tests.mrc_host.datapath.in_place import HEAD, InPlaceWorld
from tests.mrc_host.datapath.pieces import give
from tests.mrc_host.nic_world import MS, US, End, Faults, World, connect
from tests.mrc_host.test_nic_fuzz import Secrets, seal

Give = Callable[[Nic, int, bytes, int], None]
NUMBERS = (0, 1, -1, 15, 16, 63, 64, 4031, 4032, 4096, 1 << 24, (1 << 31) - 1, (1 << 32) - 1, 1 << 62, (1 << 64) - 1)


def in_pieces(cuts: random.Random) -> Give:
    """Has a NIC get its frames as in the simulation's native core."""

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
        changed = _forged(bytearray(frame), a, secrets, chance) if frame[102] <= 0xCB else frame
        receive(nic, port, changed, world.now)
        for p in range(2):
            while (answer := nic.transmit(p, world.now)) is not None:
                answers.append((p, answer))
    assert secrets.untouched()
    assert nic.nic_counters()["drop_internal_error"] == 0
    return [answers, bytes(b.buffer), dict(nic.nic_counters()), nic.hw_counters(None, world.now)]


def packets_in_place(chance: random.Random) -> None:
    """Packets in place arrive with heads that are forged or cut, while messages, memory and a queue pair end."""
    faults = Faults(seed=chance.getrandbits(32), duplicate=0.2, corrupt=0.1, delay=0.3, extra=100_000, trim=0.05)
    world = InPlaceWorld(planes=2, faults=faults)
    world.rules_kept = False
    a, b = connect(world, size=1 << 14, attributes=QpAttributes(path_mtu=chance.choice([256, 1024, 4096])))
    secrets = Secrets(world)
    arrived: list[tuple[int, bytes]] = []
    world.arrival = lambda number, port, frame: arrived.append((port, frame)) if number == 1 else None
    for _ in range(4):
        a.write(b, chance.randrange(1, 1 << 14))
        world.run(chance.randrange(40) * US)
        for port, frame in chance.sample(arrived, min(len(arrived), 8)):
            if packets := [packet for rest, packet in world.packets.items() if len(rest) <= len(frame)]:
                head = _forged(bytearray(frame), a, secrets, chance)[:HEAD]
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


def wrong_arguments(module: ModuleType, chance: random.Random) -> None:
    """Numbers of any size, in any order: an exception or none, but no harm."""
    prefix = bytearray(chance.randbytes(chance.choice([20, 21, 42, 62, 102, 126, 127])))
    if len(prefix) > 20:
        prefix[20] = {42: 0, 102: 41, 126: 43}.get(len(prefix), 9)
    low, high = [-1] * chance.randint(1, 3), [-1] * 3
    buffer = bytearray(chance.randrange(1, 5000))
    made: dict[str, Any] = {"receiver": module.Receiver(2, 1), "region": module.Region(memoryview(buffer))}

    def number() -> int:
        return chance.choice(NUMBERS) + chance.choice([0, 0, -1, 1])

    carrier = None
    for _ in range(40):
        what = chance.randrange(9)
        try:
            if what == 0:
                made["template"] = module.Template(bytes(prefix), number())
            elif what == 1:
                made["message"] = module.Message(
                    memoryview(buffer), *(number() % (1 << 32) for _ in range(7)), module.Outbox()
                )
            elif what == 2 and "template" in made and "message" in made:
                module.data_frame(made["template"], made["message"], number(), number())
            elif what == 3:
                made["receiver"].learn(
                    number(), bytes(prefix), object(), number(), 0, 0, 1, True, False,
                    bytes(chance.choice([4, 16, 17])),
                )  # fmt: skip
            elif what == 4 and carrier is None:
                carrier = module.Carrier(
                    made["receiver"], 5, bytes(4), chance.choice([0, 1, 256]), number(), 4096, low, high
                )
            elif what == 5 and carrier is not None:
                carrier.message(
                    number(), number(), number(), made["region"], *(number() % (1 << 64) for _ in range(2)), 7,
                    number() % (1 << 32),
                )  # fmt: skip
            elif what == 6 and carrier is not None:
                carrier.grant(number(), number(), number() << chance.randrange(300), number(), number(), 0, number())
                low.append(0) if chance.random() < 0.1 else low.clear() if chance.random() < 0.05 else None
                carrier.sack(*(number() for _ in range(10)))
                carrier.take()
            elif what == 7 and "template" in made:
                module.frame(made["template"], bytes(max(0, number() % (1 << 17))))
            else:
                frame = bytes(prefix) + chance.randbytes(chance.randrange(200))
                made["receiver"].receive(chance.randrange(2), frame)
        except (ValueError, TypeError, OverflowError):
            pass


def _forged(frame: bytearray, a: End, secrets: Secrets, chance: random.Random) -> bytes:
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
