"""The engine's fuzzer, inside a process with the sanitizers: one line in, a number that chooses a case; one line out.

A case is a switch with random settings and a random program (often one that has been compiled before), and some
hundred calls: frames up to the longest, other entries, sessions and groups, ports that go down, flow control, long
wires, another program.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from mrc_common.p4_match import Exact, Lpm, Match, Range, Ternary
from mrc_host.wire import pause as pause_frame
from p4runtime_shim.build import BuildOptions
from p4runtime_shim.entities import ActionCall, CloneSession, Entry, MeterConfig, Replica
from p4runtime_shim.errors import BuildError, SwitchError
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import LONGEST_DELAY_NS, EmbeddedSwitch
from p4runtime_shim.traffic_manager import PauseConfig, PortDelay, QueueConfig
from tests.fuzz.random_program import ACTIONS, PORTS, RandomProgram
from tests.p4runtime_shim import programs
from tests.p4runtime_shim.shared_frames import SharedFrames

CHECKS = "-fsanitize=address,undefined,float-cast-overflow"
OPTIONS = BuildOptions(flags=("-O1", "-g", CHECKS, "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"))
CALLS = 300
KNOWN = 40  # random programs that come again and again, in every run
MAX_CALL = 5.0  # seconds of processor time of one call, under the sanitizers


@functools.lru_cache(maxsize=32)
def pipeline(number: int) -> Pipeline:
    """A program by its number; the first are those of the tests."""
    names = (*programs.NAMES, "fabric")
    if number < len(names):
        name = names[number]
        return Pipeline.load(programs.FABRIC.read_text() if name == "fabric" else programs.text(name), options=OPTIONS)
    made = (RandomProgram(random.Random(f"{number}/{more}")).text for more in itertools.count())
    return next(filter(None, map(_accepted, made)))


def _accepted(text: str) -> Pipeline | None:
    try:
        return Pipeline.load(text, options=OPTIONS)
    except BuildError:
        raise  # what is not refused compiles
    except SwitchError:
        return None  # refused, with a message


class Case:
    """One switch and what is done to it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.now = 0
        self.longest = 0.0
        self.pipeline = self._program()
        self.max_frame = chance.choice([64, 300, 1500, 2048, 9000, 9216, 65535])
        queues = QueueConfig(
            max_frame=self.max_frame,
            buffer_packets=chance.choice([1, 2, 4, 8, 64, 896]),
            max_packets=chance.choice([0, 1, 16, 256]),
            queues=chance.choice([1, 8]),
        )
        self.switch = EmbeddedSwitch(self.pipeline, ports=range(PORTS), seed=chance.getrandbits(64), queues=queues)
        self.shared = SharedFrames(self.switch)

    def _program(self) -> Pipeline:
        fresh = self.chance.random() < 0.1
        return pipeline(self.chance.getrandbits(48) if fresh else self.chance.randrange(KNOWN))

    def run(self) -> None:
        """All calls of the case."""
        with self.switch:
            self._prepare()
            for _ in range(CALLS):
                self.now += self.chance.choice([0, 1, 1000, 10**6, 10**10])
                action = self.chance.choices(*zip(*self._actions(), strict=True))[0]
                start = time.thread_time()
                with contextlib.suppress(SwitchError):  # refused, with a message
                    action()
                took = 0 if action == self._swap else time.thread_time() - start  # which compiles
                assert took < MAX_CALL, f"{action} took {took:.1f} s"
                self.longest = max(self.longest, took)
        assert not self.shared.owned, "payloads that were never given up"

    def _actions(self) -> list[tuple[Callable[[], Any], int]]:
        port = self.chance.randrange(PORTS + 1)
        return [
            (lambda: self.switch.receive(port, self._frame(), self.now), 20),
            (lambda: self.shared.receive(port, self._frame(), self.now, self.chance.choice([0, 1, 60, 192, 8000])), 20),
            (lambda: self._drain(port), 25),
            (lambda: self.shared.prefetch(port), 5),
            (lambda: self.switch.port_changed(port, self.chance.random() < 0.7, self.now), 3),
            (lambda: self.switch.tick(self.now), 2),
            (self._prepare, 1),
            (self._set, 6),
            (self._swap, 0.3),
        ]

    def _swap(self) -> None:
        self.switch.set_pipeline(self._program())

    def _frame(self) -> bytes:
        chance = self.chance
        if chance.random() < 0.05:
            return pause_frame.build(bytes(6), {0: chance.choice([0, 1, 65535]), 7: 65535})
        length = chance.choice([1, 4, 60, self.max_frame // 2, self.max_frame - 1, self.max_frame, self.max_frame + 1])
        body = chance.choice([b"\1", b"\0", b"\xff", chance.randbytes(64)])
        return (bytes([chance.randrange(ACTIONS), chance.randrange(256)]) + body * (length // len(body) + 1))[:length]

    def _drain(self, port: int) -> None:
        for _ in range(self.chance.randrange(20)):
            transmit = self.chance.choice([self.switch.transmit, self.shared.transmit])
            if transmit(port, self.now) is None:
                break

    def _prepare(self) -> None:
        """Entries, sessions and groups."""
        program = self.switch.pipeline.program if self.switch.pipeline else self.pipeline.program
        ports = [0, 1, 2, 3, 4, 5, 9, 510]
        for number in range(4):
            replicas = tuple(Replica(self.chance.choice(ports), i) for i in range(self.chance.choice([0, 1, 3, 40])))
            cut = self.chance.choice([0, 1, 100, 10**5])
            self._try(self.switch.control_plane.replication.session_set, number + 1, CloneSession(replicas, cut))
            self._try(self.switch.control_plane.replication.group_set, number + 1, replicas)
        if program.parser.value_sets:
            count = self.chance.choice([0, 1, 3, 100, 101])
            members = [(self._match(), self._match()) for _ in range(count)]
            self._try(self.switch.control_plane.value_set("set").set_members, list(dict.fromkeys(members)))
        for table in program.tables:
            self._try(self.switch.control_plane.table(table.name).last_hits)
            for key in range(ACTIONS):
                action = program.actions[self.chance.choice(table.actions)] if table.actions else None
                if action is not None and len(table.keys) == 1 and not action.params:
                    entry = Entry((Exact(key),), ActionCall(action.name, ()))
                    self._try(self.switch.control_plane.table(table.name).insert, entry)

    def _match(self) -> Match:
        """A match of a byte."""
        low, high = sorted(self.chance.randrange(256) for _ in range(2))
        length = self.chance.randrange(9)
        prefix = low >> (8 - length) << (8 - length)
        return self.chance.choice([Exact(low), Ternary(low & high, high), Lpm(prefix, length), Range(low, high)])

    def _set(self) -> None:
        chance, switch = self.chance, self.switch
        port = chance.randrange(PORTS)
        rate = chance.choice([0, 1, 10**9, 2**63 - 1])
        choice = chance.randrange(8)
        if choice == 0:
            switch.set_port_rate(port, rate, chance.choice([0, 10**6]))
        elif choice == 1:
            config = MeterConfig(rate, chance.choice([0, 1500, 2**63 - 1]), 2**63 - 1, chance.choice([0, 2**63 - 1]))
            switch.control_plane.externs.meter_write("meter", chance.randrange(4), config)
        elif choice == 2:
            switch.set_logging(messages=chance.random() < 0.5, trace=chance.random() < 0.5)
            switch.take_log(1000)
        elif choice == 3:
            switch.control_plane.take_digests()
        elif choice == 4:
            switch.set_queue_limits(port, max_packets=chance.choice([0, 1, 100]), max_bytes=chance.choice([0, 5000]))
        elif choice == 5:
            sizes = {"xoff": 9000, "xon": 4000, "headroom": chance.choice([0, 20000])}
            pause = PauseConfig(priorities=frozenset({0}), quanta=100, rate_bps=10**9, **sizes)
            switch.set_pause(port, pause if chance.random() < 0.7 else None)
        elif choice == 6:
            delay = PortDelay(*(chance.choice([0, 1, 10**6, LONGEST_DELAY_NS]) for _ in range(2)))
            switch.set_port_delay(port, delay, self.now)
        else:
            switch.control_plane.externs.register_write("cells", chance.randrange(4), chance.randrange(256))
            switch.stats()

    def _try(self, function: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(SwitchError):
            function(*arguments)


def main() -> None:
    """Serve cases until standard input ends."""
    print("ready", flush=True)
    for line in sys.stdin:
        case = Case(random.Random(int(line)))
        case.run()
        print(json.dumps({"calls": CALLS, "longest_call_ms": round(1e3 * case.longest, 2)}), flush=True)


if __name__ == "__main__":
    main()
