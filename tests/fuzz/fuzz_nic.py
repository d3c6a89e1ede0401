"""Frames into a NIC: captured ones changed behind a valid ICRC, cut, trimmed, replayed late, and plain noise.

A pair of NICs exchanges writes; a neighbour that receives everything sends its own versions. Whatever it sends, nothing
escapes the device, no memory changes that the frame has no right to, and one frame is not answered by many: a neighbour
must not be able to use a NIC as an amplifier.
"""

from __future__ import annotations

import random

from tests.mrc_host.test_nic_fuzz import Secrets, make_world, seal

FRAMES_PER_CASE = 20
MAX_ANSWERS = 64  # frames that a NIC may send for one received, retransmissions and probes included
BTH = 102  # where the transport begins in an SRv6 frame


class Fuzzer:
    """One world a case, so that a case repeats by its number."""

    def case(self, chance: random.Random) -> None:
        world, frames, _ = make_world()
        secrets = Secrets(world)
        nic = world.nics[1]
        for _ in range(FRAMES_PER_CASE):
            port, frame = chance.choice(frames)
            frame = self._changed(bytearray(frame), secrets, chance)
            nic.receive(port if chance.random() < 0.9 else 1 - port, frame, world.now)
            sent = sum(self._drain(nic, p, world.now) for p in range(world.planes))
            assert sent <= MAX_ANSWERS, f"{sent} frames in answer to one"
            if chance.random() < 0.2:
                world.now += chance.choice([1, 1_000, 1_000_000])
                nic.tick(world.now)
        assert nic.nic_counters()["drop_internal_error"] == 0
        assert secrets.untouched()

    def close(self) -> None:
        pass

    @staticmethod
    def _drain(nic: object, port: int, now: int) -> int:
        count = 0
        while count <= MAX_ANSWERS and nic.transmit(port, now) is not None:  # type: ignore[attr-defined]
            count += 1
        return count

    @staticmethod
    def _changed(frame: bytearray, secrets: Secrets, chance: random.Random) -> bytes:
        kind = chance.randrange(10)
        if kind == 0:
            return chance.randbytes(chance.randrange(400))
        if kind == 1:
            return bytes(frame)  # a replay
        if kind == 2:
            del frame[chance.randrange(len(frame)) :]
            return bytes(frame)
        if kind == 3:  # as a switch trims
            frame[14:16] = ((int.from_bytes(frame[14:16], "big") & ~(63 << 6)) | chance.choice([12, 16]) << 6).to_bytes(
                2, "big"
            )
            return bytes(frame[: 14 + chance.randrange(40, 160)])
        if kind <= 5 and frame[BTH] <= 0xCB:
            region = chance.choice(secrets.regions)
            address = region.address + chance.choice([-4096, -1, 0, 1, 4095, 8192])
            frame[122:134] = (address % 2**64).to_bytes(8, "big") + region.rkey.to_bytes(4, "big")
            frame[134:138] = chance.choice([0, 1, 100, 8192, 2**31, 2**32 - 1]).to_bytes(4, "big")
        for _ in range(chance.randrange(6)):
            frame[chance.randrange(BTH, min(len(frame) - 4, BTH + 60))] = chance.randrange(256)
        if chance.random() < 0.5:
            frame[BTH + 9 : BTH + 12] = chance.randrange(1 << 24).to_bytes(3, "big")  # any PSN
        return seal(frame)
