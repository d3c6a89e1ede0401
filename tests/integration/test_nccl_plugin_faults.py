"""NCCL's plugin for MRC under the faults of ``mrc train-faults``: what its calls return, and what its caller can do.

The sender is in h2 and the receiver in h3, so every case of the lab concerns them. The plugin asks for no number of
retries, only for an ACK timeout, NCCL_MRC_TIMEOUT. What each case must be follows from its source and the protocol: as
long as a path works no call fails. A peer without its queue pair refuses, which is an error at once. A peer that does
not answer is an error when the NIC's own retries are used up. With ``-s`` each case prints what it measured.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("mininet")

from mrc_host import verbs
from mrc_host.config import TransportSettings
from mrc_host.transport.retry_policy import RetryPolicy
from mrc_host.verbs_types import QpAttributes
from mrc_lab.fabric.emulation import EmulatedWorld, running
from mrc_lab.torch_jobs.train_faults.cases import FaultCase, load
from tests.integration import nccl_program
from tests.integration.names import own
from tests.integration.nccl_program import counters, released
from tests.waiting import until
from topologies.clos import multi_plane_clos
from topologies.emulation import host_environment
from topologies.faults.flap import Flap

pytestmark = [*nccl_program.MARKS, pytest.mark.timeout(300)]

SENDER, RECEIVER = "h2", "h3"
RESULTS = {0: "ncclSuccess", 2: "ncclSystemError", 6: "ncclRemoteError"}
# Whichever the plugin sees first: its thread the event of the queue pair, or a call the completion.
LOST = ("ncclSystemError", "ncclRemoteError")
SHORT = 12  # NCCL_MRC_TIMEOUT of cases in which nobody answers; the plugin's own, 20, takes 256 times as long
MOST = 8  # messages that NCCL has under way
GO_ON = 6  # reports of messages that came after the fault

LAB = {case.name: case for case in load().cases}
REFUSED = [LAB["rank-killed"], LAB["while-recovering"]]
SILENT = [
    LAB["nic-gone"],
    LAB["opposite-ports"],
    FaultCase("own-nic-gone", "all links of the sender's NIC are cut", {"planes": [f"{SENDER}@p* down"]}),
]
SURVIVED = [case for case in LAB.values() if not case.harmless and not case.stop and case not in [*REFUSED, *SILENT]]


def budget(timeout: int) -> int:
    """How long (ns) a queue pair waits for a silent peer if only its timeout was given."""
    attributes = QpAttributes(timeout=timeout)
    policy = RetryPolicy.with_attributes(attributes, TransportSettings())
    return sum(policy.timeout_after(retries) for retries in range(attributes.retry_count + 1))


class StreamEnd:
    """A process that sends or receives messages without end, and what it has printed since it last connected."""

    def __init__(self, process: subprocess.Popen[str], output: Path) -> None:
        self.process = process
        self._output = output
        self._seen = 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def say(self, command: str) -> None:
        assert self.process.stdin is not None
        if command == "again":
            self._seen = len(self._lines())
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def _lines(self) -> list[str]:
        printed = self._output.read_text()
        return printed[: printed.rfind("\n") + 1].splitlines()

    def lines(self, word: str) -> list[list[str]]:
        return [line.split()[1:] for line in self._lines()[self._seen :] if line.split()[0] == word]

    def expect(self, word: str, count: int = 1) -> list[str]:
        """The last of so many lines that begin with `word`."""
        return until(lambda: self.lines(word)[count - 1 :], f"{count} lines of {word}")[-1]

    def mark(self) -> int:
        """Count from here; how many messages are under way."""
        before = len(self.lines("marked"))
        self.say("mark")
        return int(self.expect("marked", before + 1)[0])

    def after(self, at_ns: int) -> int:
        """Reports of messages that were done after a time."""
        return sum(int(line[1]) > at_ns for line in self.lines("flowing"))

    def ended(self) -> tuple[int, float]:
        """Messages since the mark, and the longest time without one (s)."""
        count, pause = self.expect("ended")
        return int(count), int(pause) / 1e9


@pytest.fixture(scope="module")
def world() -> Iterator[EmulatedWorld]:
    with running(multi_plane_clos(own("ncclf"), planes=2, t0=2, t1=2, hosts=4, rate_bps=100_000_000)) as world:
        yield world


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nccl_program.built(tmp_path_factory.mktemp("nccl"))


class Connection:
    """Both ends, and how to start another process for one."""

    def __init__(self, world: EmulatedWorld, program: Path, folder: Path, environment: Mapping[str, str]) -> None:
        self._world, self._program, self._folder, self._environment = world, program, folder, environment
        self.started: list[StreamEnd] = []
        self.receiver = self.start(RECEIVER, "receive")
        self.sender = self.start(SENDER, "send")

    def start(self, host: str, role: str) -> StreamEnd:
        output = self._folder / f"output{len(self.started)}"
        with output.open("w") as file:
            process = nccl_program.start(
                self._world, self._program, host, role, self._folder, "stream", stdout=file, **self._environment
            )
        self.started.append(StreamEnd(process, output))
        return self.started[-1]

    def flow(self) -> None:
        for end in (self.sender, self.receiver):
            end.expect("flowing")

    def mark(self) -> None:
        for end in (self.sender, self.receiver):
            end.mark()

    def hold_with_receives_posted(self) -> None:
        """The sender has nothing under way, and knows of all the receives that its peer may post."""
        self.sender.say("hold")
        self.sender.expect("held")
        until(lambda: self.receiver.mark() == MOST, "all receives to be posted")
        until(lambda: not counters(self._world, RECEIVER)["inflight_bytes"], "the sender's NIC to have them")

    def hold_without(self) -> None:
        """Neither end has anything under way."""
        for end in (self.receiver, self.sender):
            end.say("hold")
            end.expect("held")

    def stop(self) -> None:
        """To the last message, which has arrived; nothing is left on the NICs while the programs live."""
        self.sender.say("stop")
        self.check_closed()
        assert not any(end.lines("failed") for end in (self.sender, self.receiver))

    def check_closed(self) -> None:
        for end in (self.sender, self.receiver):
            if end.process.poll() is None:
                assert end.expect("closed") == ["0"]
        until(lambda: released(self._world, SENDER, RECEIVER), "queue pairs to be gone")

    def again(self) -> None:
        """Connect once more, with another process where one has ended."""
        if self.receiver.process.poll() is None:
            self.receiver.say("again")
        else:
            self.receiver = self.start(RECEIVER, "receive")
        if self.sender.process.poll() is None:
            self.sender.say("again")
        else:
            self.sender = self.start(SENDER, "send")
        self.flow()


@contextmanager
def connection(world: EmulatedWorld, program: Path, folder: Path, **environment: str) -> Iterator[Connection]:
    found = Connection(world, program, folder, environment)
    try:
        found.flow()
        found.mark()
        yield found
        for end in (found.sender, found.receiver):
            end.say("end")
            assert end.process.wait() == 0
    finally:
        for end in found.started:
            end.process.kill()
            errors = end.process.communicate()[1]
            print(errors)


class Faults:
    """Faults in force, by the words of a case."""

    def __init__(self, world: EmulatedWorld) -> None:
        self._world = world
        self._numbers: list[int] = []

    def make(self, faults: Sequence[object]) -> int:
        """Inject; returns when the first one began (ns)."""
        began = []
        with self._world.controller() as controller:
            for fault in faults:
                record = controller.inject(fault)
                self._numbers.append(record.id)
                began.append(record.began_at_ns)
        return min(began)

    def clear(self) -> None:
        with self._world.controller() as controller:
            for number in self._numbers:
                controller.clear(number)
        self._numbers = []


@pytest.fixture
def faults(world: EmulatedWorld) -> Iterator[Faults]:
    faults = Faults(world)
    yield faults
    faults.clear()


def flaps(world: EmulatedWorld) -> int:
    with verbs.open(world.emulation.socket(RECEIVER)) as context:
        return sum(port["link_downed"] for port in context.port_counters())


@pytest.mark.parametrize("case", SURVIVED, ids=lambda case: case.name)
def test_no_call_fails_as_long_as_a_path_works(
    world: EmulatedWorld, program: Path, tmp_path: Path, faults: Faults, case: FaultCase
) -> None:
    with connection(world, program, tmp_path) as both:
        before = flaps(world)
        made = case.faults_of("planes")
        began = faults.make(made)
        if any(isinstance(fault, Flap) for fault in made):
            until(lambda: flaps(world) >= before + 3, "the port to flap")
            began = time.monotonic_ns()
        until(lambda: both.receiver.after(began) >= GO_ON, "messages under the fault")
        faults.clear()
        both.stop()
        count, pause = both.receiver.ended()
    print(f"{case.name}: {count} messages, longest pause {pause:.3f} s")


def show(case: str, began: int, both: Connection) -> None:
    for name, end in (("sender", both.sender), ("receiver", both.receiver)):
        for call, result, at in end.lines("failed"):
            text = f"{call} returns {RESULTS[int(result)]} after {(int(at) - began) / 1e9:.2f} s"
            print(f"{case}: {name}: {text}")
            assert RESULTS[int(result)] in LOST


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_a_killed_peer_refuses_the_next_message_and_the_same_process_connects_again(
    world: EmulatedWorld, program: Path, tmp_path: Path, faults: Faults, case: FaultCase
) -> None:
    with connection(world, program, tmp_path) as both:
        both.hold_with_receives_posted()
        both.receiver.kill()
        began = time.monotonic_ns()
        both.sender.say("go")
        both.sender.expect("failed")
        both.check_closed()
        show(case.name, began, both)
        if case.then:
            faults.make(case.later_of("planes"))
        both.again()
        both.stop()


@pytest.mark.parametrize("host", [SENDER, RECEIVER])
def test_nothing_tells_of_a_peer_that_was_killed_while_nothing_was_under_way(
    world: EmulatedWorld, program: Path, tmp_path: Path, host: str
) -> None:
    with connection(world, program, tmp_path) as both:
        victim, left = (both.sender, both.receiver) if host == SENDER else (both.receiver, both.sender)
        if host == SENDER:
            both.hold_with_receives_posted()
        else:
            both.hold_without()
            both.sender.say("go")
        victim.kill()
        until(lambda: released(world, host), "its agent to release everything")
        time.sleep(1)  # in which nothing comes, as NCCL would have to send something
        assert not left.lines("failed")
        left.say("close")
        both.check_closed()
        both.again()
        both.stop()


def lose_peer(both: Connection, faults: Faults, case: FaultCase, host: str, label: str) -> None:
    """Nobody answers this host, whose end has something under way: an error after the retries, and then a new start."""
    at_it, other = (both.sender, both.receiver) if host == SENDER else (both.receiver, both.sender)
    if host == SENDER:
        both.hold_with_receives_posted()
    else:
        both.hold_without()
    faults.make(case.faults_of("planes"))
    began = time.monotonic_ns()
    at_it.say("go")
    *_, failed = at_it.expect("failed")
    assert int(failed) - began > 0.9 * budget(SHORT)
    show(label, began, both)
    assert not other.lines("failed")
    other.say("close")
    both.check_closed()
    faults.clear()
    both.again()
    both.stop()


@pytest.mark.parametrize("host", [SENDER, RECEIVER])
@pytest.mark.parametrize("case", SILENT, ids=lambda case: case.name)
def test_a_peer_that_does_not_answer_is_an_error_after_the_retries(
    world: EmulatedWorld, program: Path, tmp_path: Path, faults: Faults, case: FaultCase, host: str
) -> None:
    with connection(world, program, tmp_path, NCCL_MRC_TIMEOUT=str(SHORT)) as both:
        lose_peer(both, faults, case, host, case.name)


@pytest.mark.parametrize("name", ["cut-port", "dark-plane"])
def test_a_device_of_one_plane_is_lost_with_it(
    world: EmulatedWorld, program: Path, tmp_path: Path, faults: Faults, name: str
) -> None:
    rail = {**host_environment.PLANE_DEVICES, "NCCL_IB_HCA": "=mrc0_p0", "NCCL_MRC_TIMEOUT": str(SHORT)}
    with connection(world, program, tmp_path, **rail) as both:
        lose_peer(both, faults, LAB[name], SENDER, f"{name}, on mrc0_p0")


@pytest.mark.parametrize("host", [SENDER, RECEIVER])
def test_a_stopped_process_costs_time_only(world: EmulatedWorld, program: Path, tmp_path: Path, host: str) -> None:
    with connection(world, program, tmp_path, NCCL_MRC_TIMEOUT="8") as both:
        stopped = both.sender if host == SENDER else both.receiver
        stopped.process.send_signal(signal.SIGSTOP)
        time.sleep(3)  # the pause itself, longer than the retries of a silent peer take
        stopped.process.send_signal(signal.SIGCONT)
        began = time.monotonic_ns()
        until(lambda: both.receiver.after(began) >= GO_ON, "messages after the pause")
        both.stop()
        count, pause = both.receiver.ended()
        assert pause > 2.5
    print(f"stopped {host}: {count} messages, longest pause {pause:.3f} s")


def test_links_that_come_back_in_time_cost_time_only(
    world: EmulatedWorld, program: Path, tmp_path: Path, faults: Faults
) -> None:
    with connection(world, program, tmp_path) as both:
        faults.make(LAB["nic-gone"].faults_of("planes"))
        time.sleep(2)  # the outage itself: nothing tells that nothing comes
        faults.clear()
        began = time.monotonic_ns()
        until(lambda: both.receiver.after(began) >= GO_ON, "messages after the outage")
        both.stop()
        count, pause = both.receiver.ended()
    print(f"2 s without links: {count} messages, longest pause {pause:.3f} s")


@pytest.mark.parametrize("host", [SENDER, RECEIVER])
def test_a_nic_that_restarts_ends_the_connection_and_another_process_connects_again(
    world: EmulatedWorld, program: Path, tmp_path: Path, host: str
) -> None:
    with connection(world, program, tmp_path) as both:
        of_it, other = (both.sender, both.receiver) if host == SENDER else (both.receiver, both.sender)
        both.hold_with_receives_posted()
        began = time.monotonic_ns()
        world.restart(host)
        both.sender.say("go")
        of_it.expect("failed")
        other.expect("failed") if other is both.sender else other.say("close")
        both.check_closed()
        show(f"NIC of {host} restarts", began, both)
        # The plugin opens devices once, and crashes in a process that connects again after its NIC was gone.
        of_it.kill()
        both.again()
        both.stop()
