"""Interrupts an application with its own NIC: `python -m tests.integration.own_nic_interruptions CONFIG SOCKET MODE`.

Runs in the namespace of CONFIG's host, and is a client of the agent at SOCKET as well. It fails by itself; what it
prints is for whoever reads why.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FrameType

import pytest

from mrc_host import verbs
from mrc_host.errors import StateError
from mrc_host.own_nic import OwnNic
from mrc_host.values import CompletionStatus, QpAttributes
from mrc_host.verbs import ClosedError, Context, RejectedError

SIZE = 1 << 18
TIMEOUT_S = 10
PATIENT = QpAttributes(timeout=12, retry_count=64)
WRONG_THREAD = "This NIC belongs to the thread that opened it: use it there, or an agent's NIC instead."


class AlarmError(Exception):
    """What the handler of SIGALRM raises."""


class End:
    """One end of a connection."""

    def __init__(self, context: Context) -> None:
        self.cq = context.create_cq(64)
        self.domain = context.alloc_pd()
        self.memory = self.domain.alloc_mr(SIZE)
        self.qp = self.domain.create_qp(self.cq, attributes=PATIENT)
        self.posted = 0

    def connect(self, peer: End) -> None:
        endpoint = peer.qp.endpoint(peer.memory)
        assert endpoint.memory is not None
        self.remote = endpoint.memory
        self.qp.connect(endpoint)

    def write(self, length: int) -> None:
        """Write, and wait until that is complete, and so everything before it."""
        self.post(length)
        while verbs.check(self.cq.wait(TIMEOUT_S)).wr_id != self.posted:
            pass

    def post(self, length: int) -> None:
        self.posted += 1
        self.qp.write(self.memory, self.remote, length=length, wr_id=self.posted)


def pair(near: Context, far: Context) -> tuple[End, End]:
    one, two = End(near), End(far)
    one.connect(two)
    two.connect(one)
    return one, two


def alarms(nic: OwnNic, agent: Context) -> None:
    """Each is raised, and the same queue pair goes on."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    fired = 0

    def handler(*_: object) -> None:
        nonlocal fired
        fired += 1
        raise AlarmError

    signal.signal(signal.SIGALRM, handler)
    near, far = pair(nic.context, agent)
    for raised in range(80):
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0005, 0.01))
            while fired == raised:
                near.write(SIZE)
            raise AssertionError("the handler ran, but nothing was raised")
        except AlarmError:
            print("raised after", near.posted)
        near.write(8)
        signal.setitimer(signal.ITIMER_REAL, 0)
    near.memory.buffer[:] = rng.randbytes(SIZE)
    near.write(SIZE)
    assert far.memory.buffer == near.memory.buffer
    assert nic.context.counters()["drop_internal_error"] == 0


def client(nic: OwnNic, agent: Context) -> None:
    """What a handler raises is no failure of the connection to the agent, even if it is an OSError."""

    fired = 0

    def handler(*_: object) -> None:
        nonlocal fired
        fired += 1
        raise TimeoutError

    signal.signal(signal.SIGALRM, handler)
    near, _far = pair(agent, nic.context)

    def write(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            while True:
                near.post(8)
                while not near.cq.poll():
                    nic.work(0)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    for number in range(60):
        with pytest.raises(TimeoutError) as raised:  # and not AgentLostError
            write(0.0002 * (1 + number % 10))
        assert fired == number + 1, repr(raised.value)
    nic.run(asyncio.sleep(0.2))
    near.cq.poll(64)


def in_child(function: Callable[[], object]) -> int:
    """Fork, and have the child end with what `function` does; its number."""
    child = os.fork()
    if not child:
        status = 1
        try:
            function()
            status = 0
        finally:
            os._exit(status)
    return child


def fork(nic: OwnNic, agent: Context) -> None:
    """A child leaves the `with` statement, one tries to write, and one lives longer than the NIC."""
    near, _far = pair(nic.context, agent)
    near.write(8)

    def leave() -> None:
        with nic:
            pass

    def use() -> None:
        for verb in (lambda: near.write(8), nic.context.create_cq, near.qp.close, lambda: nic.work(0)):
            with pytest.raises(ClosedError, match=r"fork\(\)"):
                verb()
        for forked in (leave, nic.close):
            forked()

    for function in (leave, use):
        assert os.waitpid(in_child(function), 0)[1] == 0
        near.write(8)
        near.write(SIZE)
    child = in_child(signal.pause)
    nic.close()
    with OwnNic.open(sys.argv[1]) as again:
        one, _two = pair(again.context, agent)
        one.write(8)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def threads(nic: OwnNic, agent: Context) -> None:
    """Other threads are refused, even while the NIC works for its own, and a child that one of them forks is closed."""
    near, _far = pair(nic.context, agent)
    near.write(8)
    verbs_of_others: tuple[Callable[[], object], ...] = (
        lambda: near.qp.write(near.memory, near.remote, length=8), near.cq.poll, lambda: near.cq.wait(0),
        near.cq.req_notify, near.qp.counters, near.qp.close, nic.context.create_cq,
        lambda: near.domain.alloc_mr(SIZE), nic.context.close, nic.context.poll_event, nic.context.alloc_pd,
        nic.context.controller, lambda: near.cq.wait_notified(0), near.cq.unlisten, near.domain.close, nic.close,
        lambda: nic.work(0), lambda: nic.run(asyncio.sleep(0)),
    )  # fmt: skip
    refused = Counter[str]()

    def intrude() -> None:
        for _ in range(50):
            for verb in verbs_of_others:
                with pytest.raises(StateError) as caught:
                    verb()
                refused[str(caught.value)] += 1

    def leave() -> None:
        with pytest.raises(ClosedError, match=r"fork\(\)"):
            near.write(8)
        nic.close()

    near.cq.req_notify()
    near.post(8)
    nic.run(asyncio.sleep(0.2))  # by then the notification is there, and must not be theirs
    with ThreadPoolExecutor(1) as others:
        for verb in verbs_of_others:
            with pytest.raises(StateError):
                others.submit(verb).result()
    near.cq.wait_notified(0)
    near.write(8)
    with ThreadPoolExecutor(2) as others:
        intruders = [others.submit(intrude) for _ in range(2)]
        while not all(intruder.done() for intruder in intruders):
            near.write(SIZE)
        for intruder in intruders:
            intruder.result()
        assert os.waitpid(others.submit(in_child, leave).result(), 0)[1] == 0
    assert refused == {WRONG_THREAD: 2 * 50 * len(verbs_of_others)}
    near.write(SIZE)


def context(nic: OwnNic, agent: Context) -> None:
    """Closing the context ends what it has; the NIC gives another one, until it is closed."""
    with nic.context as first:
        near, far = pair(first, agent)
        near.write(8)
    for _ in range(2):
        far.post(8)
        nic.run(asyncio.sleep(0.2))
        entry = far.cq.wait(TIMEOUT_S)
        assert entry.status is not CompletionStatus.SUCCESS
        near, far = pair(nic.context, agent)
        near.write(8)
        nic.context.close()
    controller = nic.context.controller()
    nic.close()
    for verb in (
        nic.context.create_cq,
        controller.destinations,
        lambda: nic.work(0),
        lambda: nic.run(asyncio.sleep(0)),
    ):
        with pytest.raises(ClosedError):
            verb()


def failed_run(nic: OwnNic, agent: Context) -> None:
    """Without descriptors there is no event loop; then everything else works as before."""
    near, _far = pair(nic.context, agent)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, before[1]))
    with pytest.raises(OSError, match="Too many open files"):
        nic.run(asyncio.sleep(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    near.post(8)
    while not near.cq.poll():
        pass
    nic.run(asyncio.sleep(0))


def at_line(number: int, function: Callable[[], object]) -> bool:
    """Call `function`, with SIGALRM at this line of the interpreted code in it; whether there are as many."""
    left = number

    def tracer(_frame: FrameType, event: str, _arg: object) -> Callable[..., object]:
        nonlocal left
        left -= event == "line"
        if not left:
            sys.settrace(None)
            signal.raise_signal(signal.SIGALRM)
        return tracer

    sys.settrace(tracer)
    try:
        function()
    finally:
        sys.settrace(None)
    return left <= 0


def closing(nic: OwnNic, _agent: Context) -> None:
    """Whatever a handler raises at whichever line of `close`: the NIC is closed by then, or is by the next call."""
    nic.close()
    descriptors = os.listdir("/proc/self/fd")
    signal.signal(signal.SIGALRM, raise_alarm)
    line, reached = 1, True
    while reached:
        again = OwnNic.open(sys.argv[1])
        try:
            reached = at_line(line, again.close)
        except AlarmError:
            again.close()
        with OwnNic.open(sys.argv[1]):
            pass
        line += 3
    assert line > 100, "close has fewer lines than it had: are they seen?"
    assert len(os.listdir("/proc/self/fd")) == len(descriptors)


def closed(nic: OwnNic, agent: Context) -> None:
    """A handler closes the NIC at any line of a verb, which then says so, or has done its work."""
    nic.close()
    outcomes = Counter[str]()
    for number in range(120):
        again = OwnNic.open(sys.argv[1])
        near, _far = pair(again.context, agent)
        verb = (partial(near.post, 8), near.cq.poll, near.qp.query, partial(near.write, 8))[number % 4]

        def handler(*_: object, again: OwnNic = again) -> None:
            try:
                again.close()
            except RejectedError:  # it is at work
                outcomes["refused"] += 1

        signal.signal(signal.SIGALRM, handler)
        try:
            at_line(1 + number // 4 * 3, verb)
            outcomes["done"] += 1
        except ClosedError:
            outcomes["closed"] += 1
        again.close()
    print(outcomes)
    assert outcomes["closed"] > 10


def raise_alarm(*_: object) -> None:
    raise AlarmError


MODES = {mode.__name__: mode for mode in (alarms, client, closed, closing, context, failed_run, fork, threads)}


def main() -> None:
    with OwnNic.open(sys.argv[1]) as nic, verbs.open(sys.argv[2]) as agent:
        MODES[sys.argv[3]](nic, agent)


if __name__ == "__main__":
    main()
