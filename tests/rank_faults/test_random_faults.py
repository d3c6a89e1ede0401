"""Random faults with fixed seeds end in success or one error, and what else they might come to is found."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")

from mrc_common import children
from mrc_lab.torch.stages import Stage
from tests.rank_faults import verdict
from tests.rank_faults.rank import Ending
from tests.rank_faults.scenario import ENDLESS, LONG_S, SHORT_S, YEAR_S, Blow, Fault, Round, draw_scenario
from tests.seeds import SEED

RUNS = 10
WELL, BADLY = Ending(True), Ending(False, "rank 2 (h3) is lost")
QUIET = Round(True, (0, 1, 2), (0, 1, 2), LONG_S, 1, ())


@pytest.mark.timeout(600)
def test_random_faults_end_in_success_or_one_error() -> None:
    first = SEED * 1000
    print(f"python -m tests.rank_faults --from {first} --runs {RUNS}")
    command = children.python("tests.rank_faults", "--from", str(first), "--runs", str(RUNS))
    done = children.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stdout
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["cases"], result["crashes"]) == (RUNS, 0)


def test_scenarios_have_every_fault_stage_and_timeout() -> None:
    scenarios = [draw_scenario(seed) for seed in range(600)]
    rounds = [played for each in scenarios for played in (each.first, each.second([0, 1, 2], 3, watched=False))]
    blows = [blow for played in rounds for blow in played.blows]
    assert {blow.fault for blow in blows} == set(Fault)
    assert {blow.stage for blow in blows} == {*Stage, None}
    assert {played.timeout_s for played in rounds} == {0.0, SHORT_S, LONG_S, None, YEAR_S}
    assert len({len(played.members) for played in rounds}) == 4
    assert any(set(played.callers) < set(played.members) for played in rounds)
    assert Counter(len(played.blows) for played in rounds).keys() == {0, 1, 2}
    assert draw_scenario(7) == draw_scenario(7)


def test_nothing_that_only_a_timeout_ends_happens_without_one() -> None:
    for seed in range(600):
        first = draw_scenario(seed).first
        second = draw_scenario(seed).second([0, 1], 2, watched=False)
        for played in (first, second):
            if played.endless:
                assert set(played.callers) == set(played.members)
                assert not {blow.fault for blow in played.blows} & set(ENDLESS)
        early = {blow.stage for blow in second.blows if blow.victim is not None and blow.fault is Fault.KILL}
        assert not second.endless or not early & {Stage.RETIRE, Stage.ROLL_CALL, None}


def test_a_failure_without_a_reason_is_wrong() -> None:
    assert [*verdict.of_round(QUIET, (), {0: WELL, 1: WELL, 2: WELL})] == []
    assert [*verdict.of_round(QUIET, (), {0: WELL, 1: BADLY})] == [
        "process 1 failed without a reason: rank 2 (h3) is lost"
    ]
    for fault in (Fault.KILL, Fault.STOP, Fault.OFF, Fault.SILENT, Fault.STORE):
        blow = Blow(fault, 2)
        assert [*verdict.of_round(replace(QUIET, blows=(blow,)), (blow,), {0: BADLY, 1: BADLY})] == []
    for fault in (Fault.LOSS, Fault.CUT, Fault.DARK, Fault.PAUSE):
        blow = Blow(fault, 2, amount=1)
        assert [*verdict.of_round(replace(QUIET, blows=(blow,)), (blow,), {0: BADLY})] != []


def test_hosts_without_a_plane_in_common_may_fail() -> None:
    one, other = Blow(Fault.CUT, 0, amount=0), Blow(Fault.CUT, 1, amount=1)
    assert verdict.connected((one,), (0, 1, 2))
    assert not verdict.connected((one, other), (0, 1, 2))
    assert verdict.connected((one, other), (1, 2))
    assert not verdict.connected((one, Blow(Fault.DARK, amount=1)), (0, 2))
    assert not verdict.has_link((Blow(Fault.OFF, 1),), 1)


def test_what_takes_longer_than_the_bound_is_wrong() -> None:
    late = replace(BADLY, longest_s=verdict.bound_s(LONG_S) + 1)
    (said,) = verdict.of_round(replace(QUIET, callers=(0, 1)), (), {0: late, 1: BADLY})
    assert said.startswith("process 0 took ")
    assert verdict.bound_s(LONG_S) < verdict.bound_s(None) < YEAR_S / 1000


def test_wrong_sums_and_disagreement_are_wrong() -> None:
    assert [*verdict.of_round(replace(QUIET, callers=(0,)), (), {0: replace(BADLY, wrong=True)})] != []
    assert [*verdict.of_check(True, {0: WELL, 1: WELL})] == [*verdict.of_check(False, {0: BADLY})] == []
    assert [*verdict.of_check(False, {0: WELL, 1: BADLY})] == [
        "one more sum of process 0 ends well in a group that has failed"
    ]
    assert [*verdict.of_check(True, {0: BADLY})] == [
        "one more sum of process 0 fails in a good group: rank 2 (h3) is lost"
    ]
