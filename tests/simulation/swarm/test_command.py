from click.testing import CliRunner

from simulation.swarm import command
from simulation.swarm.run import Outcome


def invoke(*arguments):
    return CliRunner().invoke(command.main, arguments)


def failing(scenario):
    bad = ("it broke",) if scenario.faults else ()
    return Outcome(scenario.seed, bad, "0", 1, 2, 0, 3)


def test_replays_a_seed():
    result = invoke("--seed", "3")
    assert result.exit_code == 0, result.output
    assert "seed 3:" in result.output
    assert "trace " in result.output


def test_soaks_for_some_runs():
    result = invoke("--runs", "3", "--first", "11")
    assert result.exit_code == 0, result.output
    assert "3 runs" in result.output


def test_reports_and_shrinks_a_failure(monkeypatch):
    monkeypatch.setattr(command, "run", failing)
    monkeypatch.setattr("simulation.swarm.shrink.run", failing)
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
