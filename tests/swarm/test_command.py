import os

from click.testing import CliRunner

from tests.swarm import command
from tests.swarm.run import SwarmOutcome


def invoke(*arguments):
    return CliRunner().invoke(command.main, arguments)


def failing(scenario):
    bad = ("it broke",) if scenario.faults else ()
    return SwarmOutcome(scenario.seed, bad, "0", 1, 2, 0, 3)


def test_the_command_replays_a_seed():
    result = invoke("--seed", "3")
    assert result.exit_code == 0, result.output
    assert "seed 3:" in result.output
    assert "trace " in result.output


def test_the_command_soaks_for_a_number_of_runs():
    result = invoke("--runs", "3", "--first", "1")
    assert result.exit_code == 0, result.output
    assert "3 runs" in result.output


def test_a_failure_is_reported_and_shrunk(monkeypatch):
    monkeypatch.setattr(command, "run", failing)
    monkeypatch.setattr("tests.swarm.shrink.run", failing)
    seed = next(n for n in range(1, 100) if len(command.generate(n).faults) > 1)
    result = invoke("--seed", str(seed))
    assert result.exit_code == 1
    assert "VIOLATION: it broke" in result.output
    assert f"--seed {seed} --faults '" in result.output
    assert "--writes ''" in result.output
    part = invoke("--seed", str(seed), "--faults", "1", "--writes", "")
    assert part.exit_code == 1


def test_positions_that_do_not_exist_are_refused():
    assert invoke("--seed", "3", "--writes", "9999").exit_code == 2
    assert invoke("--seed", "3", "--faults", "x").exit_code == 2


def breaking(scenario):
    if len(scenario.faults) > 1:
        raise ZeroDivisionError("planted")
    return SwarmOutcome(scenario.seed, (), "0", 1, 2, 0, 3)


def test_an_exception_is_a_failure_that_replays_and_shrinks(monkeypatch):
    monkeypatch.setattr(command, "run", breaking)
    monkeypatch.setattr("tests.swarm.shrink.run", breaking)
    seed = next(n for n in range(1, 100) if len(command.generate(n).faults) > 3)
    for arguments in (("--seed", str(seed)), ("--first", str(seed), "--runs", "1")):
        result = invoke(*arguments)
        assert result.exit_code == 1
        assert "ZeroDivisionError: planted" in result.output
        kept = result.output.split(f"python -m tests.swarm --seed {seed} --faults '")[1].split("'")[0]
        assert len(kept.split(",")) == 2


def dying(scenario):
    if scenario.seed == 3:
        os._exit(9)
    return SwarmOutcome(scenario.seed, (), "0", 1, 2, 0, 3)


def test_a_crashed_worker_does_not_end_the_soak(monkeypatch):
    monkeypatch.setattr(command, "run", dying)
    result = invoke("--runs", "9")
    assert result.exit_code == 1
    assert "seed 3 FAILED: the process crashed" in result.output
    assert "9 runs" in result.output


def circling(scenario):
    while True:
        pass


def test_a_hanging_run_is_a_failure(monkeypatch):
    monkeypatch.setattr(command, "run", circling)
    monkeypatch.setattr(command, "LONGEST_S", 0.2)
    result = invoke("--runs", "1", "--no-shrink")
    assert result.exit_code == 1
    assert "RunTooLongError: the run did not end within 0.2 s" in result.output
