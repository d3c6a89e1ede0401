"""Replica groups of torchft start again when one of their ranks fails, and a job ends in bounded time.

Ranks are shells, without hosts; what stands for the lighthouse prints its line and waits.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.torch_jobs import launch, replica_groups
from mrc_lab.torch_jobs.launch import Rank
from mrc_lab.torch_jobs.replica_groups import ReplicaGroups

WAITS = "exec sleep 100"
COORDINATION = """echo a log; echo '{"lighthouse": "http://h1:5", "stores": [11, 12]}'; exec sleep 100"""


class Job:
    """What was started, and what was printed; `coordination` is the shell's part in it."""

    def __init__(self) -> None:
        self.coordination = COORDINATION
        self.coordination_words: tuple[str, ...] = ()
        self.started: list[dict[str, str]] = []  # the environment of each rank
        self.processes: list[subprocess.Popen[bytes]] = []
        self.printed = ""

    def start(self, run: object, rank: Rank, command: Sequence[str], more: Mapping[str, str]) -> Any:
        if "mrc_lab.torch_jobs.coordination" in command:
            self.coordination_words = tuple(command[command.index("mrc_lab.torch_jobs.coordination") + 1 :])
            command = ("sh", "-c", self.coordination)
        else:
            self.started.append({**more, "HOST": rank.host})
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0, env={"PATH": "/bin:/usr/bin", **more}
        )
        self.processes.append(process)
        return process

    def groups(self, script: str, *, size: int = 1, **options: Any) -> ReplicaGroups:
        """Two groups, of shells that run `script`."""
        ranks = [Rank(f"h{number + 1}", 0) for number in range(2 * size)]
        return ReplicaGroups(
            None,  # type: ignore[arg-type]
            ranks,
            ("sh", "-c", script),
            size=size,
            write=self._write,
            note=lambda _: None,
            **options,
        )

    def of(self, group: int) -> list[dict[str, str]]:
        return [started for started in self.started if started["REPLICA_GROUP_ID"] == str(group)]

    def _write(self, text: str) -> None:
        self.printed += text


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    made = Job()

    def inside(pid: int, function: Callable[[], int]) -> int:
        return function()

    monkeypatch.setattr(replica_groups, "start", made.start)
    monkeypatch.setattr(replica_groups.namespaces, "run_inside", inside)
    monkeypatch.delenv(replica_groups.LIGHTHOUSE, raising=False)
    return made


def test_each_rank_finds_its_group_store_and_the_lighthouse(job: Job) -> None:
    assert job.groups("echo here", size=2, min_groups=2).train() is None
    assert job.coordination_words == ("2", "2"), "stores, and groups that a quorum needs"
    assert sorted(job.printed.splitlines()) == [f"[h{number}] here" for number in (1, 2, 3, 4)]
    for group, hosts, store in ((0, ["h1", "h2"], "11"), (1, ["h3", "h4"], "12")):
        ranks = job.of(group)
        assert [rank["HOST"] for rank in ranks] == hosts
        assert [rank["RANK"] for rank in ranks] == ["0", "1"]
        for rank in ranks:
            assert (rank["WORLD_SIZE"], rank["NUM_REPLICA_GROUPS"]) == ("2", "2")
            assert (rank["MASTER_ADDR"], rank["MASTER_PORT"]) == ("h1", store)
            assert rank["TORCHFT_LIGHTHOUSE"] == "http://h1:5"
    assert all(process.poll() is not None for process in job.processes), "the lighthouse has ended with them"


def test_a_group_starts_again_while_the_others_run(job: Job, tmp_path: Path) -> None:
    done = tmp_path / "done"
    script = (
        f'if [ $REPLICA_GROUP_ID = 0 ]; then while [ ! -e "{done}" ]; do sleep 0.01; done; exit 0; fi;'
        f' if [ $TORCHELASTIC_RESTART_COUNT = 2 ]; then touch "{done}"; exit 0; fi; kill -9 $$'
    )
    assert job.groups(script, restarts=3).train() is None
    assert "[h2] was killed by SIGKILL; replica group 1 starts again (1 of 3).\n" in job.printed
    assert "replica group 1 starts again (2 of 3).\n" in job.printed
    assert len(job.of(0)) == 1
    again = job.of(1)
    assert [each["TORCHELASTIC_RESTART_COUNT"] for each in again] == ["0", "1", "2"]
    assert len({(each["MASTER_PORT"], each["TORCHFT_MANAGER_PORT"]) for each in again}) == 1


def test_a_rank_that_fails_takes_its_group_with_it_even_one_that_is_stopped(job: Job) -> None:
    script = (
        "if [ $REPLICA_GROUP_ID = 0 ] || [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then exit 0; fi;"
        " if [ $RANK = 0 ]; then kill -STOP $$; fi; sleep 0.05; exit 3"
    )
    wait = "if [ $REPLICA_GROUP_ID = 0 ]; then sleep 0.5; fi; "
    assert job.groups(wait + script, size=2).train() is None
    assert job.printed == "[h4] ended with status 3; replica group 1 starts again (1 of 10).\n"
    assert [(each["HOST"], each["TORCHELASTIC_RESTART_COUNT"]) for each in job.of(1)] == [
        ("h3", "0"), ("h4", "0"), ("h3", "1"), ("h4", "1"),
    ]  # fmt: skip


def test_a_job_has_failed_when_no_group_is_left(job: Job) -> None:
    failure = job.groups("exit 7", restarts=1).train()
    assert failure is not None
    assert (failure.status, failure.words) == (7, "ended with status 7")
    assert job.printed.count("does not start again.") == 2
    assert job.printed.endswith("0 of 2 replica groups trained to the end.\n")
    assert len(job.started) == 4


def test_a_group_that_is_left_after_the_end_is_ended_and_one_that_fails_then_stays_away(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_groups, "LAST_S", 0.3)
    monkeypatch.setattr(launch, "_GRACE_S", 0.2)
    script = f"if [ $RANK = 0 ] && [ $REPLICA_GROUP_ID = 0 ]; then exit 0; fi; kill -STOP $$; {WAITS}"
    assert job.groups(script).train() is None
    assert job.printed == "1 of 2 replica groups trained to the end.\n"
    assert all(process.poll() is not None for process in job.processes)

    monkeypatch.setattr(replica_groups, "LAST_S", 60.0)
    again = Job()
    monkeypatch.setattr(replica_groups, "start", again.start)
    assert again.groups("if [ $REPLICA_GROUP_ID = 0 ]; then exit 0; fi; sleep 0.3; exit 3").train() is None
    assert "[h2] ended with status 3; replica group 1 does not start again.\n" in again.printed
    assert len(again.of(1)) == 1


def test_without_the_lighthouse_all_groups_are_ended(job: Job) -> None:
    job.coordination = COORDINATION.replace("exec sleep 100", "sleep 0.2; exit 4")
    failure = job.groups(WAITS).train()
    assert failure is not None
    assert (failure.host, failure.status) == ("lighthouse", 4)
    assert "without it no quorum forms" in job.printed
    assert all(process.poll() is not None for process in job.processes)


@pytest.mark.parametrize(
    ("said", "words"), [("echo a log; echo no port is free; exit 1", "no port is free"), ("", "It")]
)
def test_a_lighthouse_that_does_not_start_is_an_error(job: Job, said: str, words: str) -> None:
    job.coordination = said
    with pytest.raises(ExperimentError, match="the lighthouse of torchft cannot be started") as raised:
        job.groups(WAITS).train()
    assert words in raised.value.hint
    assert not job.started


def test_the_users_own_lighthouse_is_taken_and_may_come_and_go(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(replica_groups.LIGHTHOUSE, "http://h3:29510")
    job.coordination = COORDINATION.replace('"http://h1:5"', "null")
    assert job.groups("exit 0").train() is None
    assert job.coordination_words == ("2",), "stores alone"
    assert {each["TORCHFT_LIGHTHOUSE"] for each in job.started} == {"http://h3:29510"}
