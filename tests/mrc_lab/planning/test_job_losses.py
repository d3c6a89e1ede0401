"""GPU hours that failures cost a month: from series whose answer is known, and results that do not say it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_lab.cli.main import run
from mrc_lab.errors import ExperimentError, FileError
from mrc_lab.planning.failure_rates import FailureRate, FailureRates, load_rates
from mrc_lab.planning.job_losses import JobResult, month_lost, read_results
from tests.seeds import SEED

SECOND = 10**9
LINK: Mapping[str, Any] = {"kind": "link_down", "links": ["t0-0:t1-3@p1"]}
T1: Mapping[str, Any] = {"kind": "blackhole", "links": ["t0-0:t1-3@p1", "t0-1:t1-3@p1"]}
PORT: Mapping[str, Any] = {"kind": "port_down", "links": ["h1@p0"]}
PARTS: Mapping[str, int] = {"links": 100, "t1s": 16, "nic_ports": 80}
RATES = ["--set", "links.rate=60/h", "--set", "links.down=6s"]


def fault(what: Mapping[str, Any], at: float, until: float | None) -> dict[str, Any]:
    return {**what, "at": int(at * SECOND), "until": None if until is None else int(until * SECOND)}


def result(
    folder: Path,
    rates: Sequence[float],
    faults: Sequence[Mapping[str, Any]],
    transport: str = "mrc",
    flows: Sequence[str] = ("h1>h2", "h2>h1"),
    **changes: Any,
) -> Path:
    """A result whose slowest flow has these rates in bins of a second; the other flows are twice as fast."""
    case = {
        "transport": {"type": transport},
        "extent": {"links": 200, "parts": {"t0_t1_links": 100, "t1s": 16, "nic_ports": 100}},
        "flows": {flow: {} for flow in flows},
        "faults": list(faults),
        "end_ns": len(rates) * SECOND,
        "operations": 0,
        "errors": [],
        **changes,
    }
    (folder / "only").mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps({"backend": "scale", "cases": {"only": case}}))
    lines = ["begin_ns,end_ns,flow,bits_per_s"]
    for number, rate in enumerate(rates):
        for place, flow in enumerate(flows):
            lines.append(f"{number * SECOND},{(number + 1) * SECOND},{flow},{rate if not place else 2 * rate}")
    (folder / "only" / "flows.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_drops_are_those_of_the_slowest_flow_in_bins_within_one_fault(tmp_path: Path):
    faults = [fault(LINK, 1, 3), fault(T1, 4, 6), fault(PORT, 7.5, 9.5), fault(LINK, 11, 12)]
    rates = [100, 90, 80, 100, 50, 50, 100, 1, 25, 1, 100, 0]  # bins in which a fault begins or ends do not count
    (job,) = read_results(result(tmp_path / "r", rates, faults), ["links", "t1s", "nic_ports"])
    assert job.drops == {"links": (0.15, 1.0), "t1s": (0.5,), "nic_ports": (0.75,)}
    assert (job.gpus, job.parts, job.transport) == (2, {"links": 100, "t1s": 16, "nic_ports": 100}, "mrc")


def test_bins_with_several_faults_and_faults_of_the_whole_run_say_nothing(tmp_path: Path):
    faults = [
        fault(LINK, 0, None),
        fault(LINK, 1, 5),
        fault(LINK, 2, 3),
        fault(T1, 3, 4),
        fault({**LINK, "kind": "rate"}, 6, 7),
    ]
    (job,) = read_results(result(tmp_path / "r", [100, 90, 1, 1, 90, 100, 1, 100], faults), ["links"])
    assert job.drops == {"links": (0.1,)}


def test_steps_count_from_the_end_of_the_one_before(tmp_path: Path):
    folder = result(tmp_path / "r", [1] * 12, [fault(PORT, 4, 8)], operations=6)
    rows = ["flow,began_ns,ended_ns,bytes,ok"]
    for begins, ends in ((1, 2), (3, 4), (5, 8), (9, 10), (11, 12)):  # half of each is spent with computing
        rows.append(f"collective,{begins * SECOND},{ends * SECOND},1000,1")
    (folder / "only" / "completions.csv").write_text("\n".join(rows) + "\n")
    (job,) = read_results(folder, ["nic_ports"])
    assert job.drops == {"nic_ports": (0.5,)}


def test_a_month_of_two_kinds_is_as_slow_as_the_worse_of_what_is_down():
    job = JobResult("only", "mrc", 10, PARTS, {"links": (0.1,), "t1s": (0.5,)})
    lost = month_lost(job, FailureRates(links=FailureRate(0.1, 2 * SECOND), t1s=FailureRate(0.01, 10 * SECOND)))
    t1_down, any_down = 1 - math.exp(-0.1), 1 - math.exp(-0.3)
    assert lost.gpu_hours == 7200
    assert lost.lost == pytest.approx(7200 * (0.1 * any_down + 0.4 * t1_down))
    assert lost.by_kind["links"] == pytest.approx(7200 * 0.1 * any_down * 2 / 3)


def test_a_month_is_that_of_failures_drawn_at_random():
    """Time in steps of a second, in each of which any number of parts is down."""
    print("seed", SEED)
    drops = {"links": (0.0, 0.0, 0.2, 1.0), "t1s": (0.1, 0.5), "nic_ports": (0.3,)}
    rates = FailureRates(FailureRate(0.4, SECOND), FailureRate(0.2, SECOND), FailureRate(0.3, SECOND))
    lost = month_lost(JobResult("only", "rc", 1, PARTS, drops), rates)
    chance, seconds = np.random.default_rng(SEED), 100_000
    worst = np.zeros(seconds)
    for kind, rate in rates.given():
        for second, number in enumerate(chance.poisson(rate.at_once, seconds)):
            worst[second] = max(worst[second], *chance.choice(drops[kind], number), 0.0)
    assert lost.lost / lost.gpu_hours == pytest.approx(worst.mean(), abs=5 * worst.std() / math.sqrt(seconds))


@pytest.mark.parametrize("often", [1e-9, 1.0, 9.9])
def test_no_job_loses_more_than_the_month(often: float):
    job = JobResult("only", "rc", 10, dict.fromkeys(PARTS, 100), dict.fromkeys(PARTS, (1.0,)))
    rate = FailureRate(often, 10 * SECOND)
    lost = month_lost(job, FailureRates(rate, rate, rate))
    assert 0 < lost.lost <= lost.gpu_hours
    assert lost.lost == pytest.approx(lost.gpu_hours * -math.expm1(-30 * often))


def test_failures_that_cost_nothing_lose_nothing():
    job = JobResult("only", "mrc", 10, PARTS, {"links": (0.0, 0.0)})
    lost = month_lost(job, FailureRates(links=FailureRate(1.0, SECOND)))
    assert (lost.lost, dict(lost.by_kind)) == (0.0, {"links": 0.0})


@pytest.mark.parametrize(("kind", "parts"), PARTS.items())
def test_more_parts_down_at_once_than_there_are_of_a_kind_are_refused(kind: str, parts: int):
    job = JobResult("only", "mrc", 10, PARTS, {kind: (0.1,)})
    month_lost(job, FailureRates(**{kind: FailureRate(1.0, parts * SECOND)}))
    with pytest.raises(ExperimentError, match=f"{kind}: {parts + 1} would be down at one time, but .* has {parts}$"):
        month_lost(job, FailureRates(**{kind: FailureRate(1.0, (parts + 1) * SECOND)}))


FAULTS = [fault(LINK, 1, 3)]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"faults": []}, "does not show what a link between a T0 and a T1 alone costs"),
        ({"faults": [fault(LINK, 1.1, 1.9)]}, "does not show what a link"),
        ({"faults": [fault(LINK, 0, 3.5), fault(T1, 3, None)]}, "no time in which the job runs and nothing fails"),
        ({"faults": FAULTS, "rates": [0, 0, 0, 0]}, "no time in which the job runs and nothing fails"),
        ({"faults": FAULTS, "errors": ["only 3 of 9 steps were done"]}, "did not go on to the end: only 3 of 9 steps"),
        ({"faults": FAULTS, "tenants": {"a": {}, "b": {}}}, "several workloads"),
        ({"faults": FAULTS, "operations": 3}, r"completions.csv cannot be read"),
        ({"faults": FAULTS, "extent": {}}, "is not a result as 'mrc run' writes it"),
    ],
)
def test_results_that_do_not_have_what_it_needs_are_refused(tmp_path: Path, changes: dict[str, Any], problem: str):
    folder = result(tmp_path / "r", **{"rates": [100, 90, 90, 100], **changes})
    with pytest.raises(ExperimentError, match=problem):
        read_results(folder, ["links"])


def test_another_backend_and_a_broken_table_are_refused(tmp_path: Path):
    folder = result(tmp_path / "r", [100, 90, 90, 100], FAULTS)
    table = folder / "only" / "flows.csv"
    table.write_text(table.read_text().replace("90", "ninety", 1))
    with pytest.raises(ExperimentError, match=r"flows.csv, line 4: could not convert"):
        read_results(folder, ["links"])
    table.write_text("begin_ns,end_ns,flow\n")
    with pytest.raises(ExperimentError, match="no column bits_per_s"):
        read_results(folder, ["links"])
    table.unlink()
    with pytest.raises(ExperimentError, match=r"flows.csv cannot be read"):
        read_results(folder, ["links"])
    (folder / "summary.json").write_text((folder / "summary.json").read_text().replace('"scale"', '"sim"'))
    with pytest.raises(ExperimentError, match="a result of the sim backend"):
        read_results(folder, ["links"])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ([], "nothing fails: give rates"),
        (["links.rate=0/month", "links.down=1s"], "must be more than 0: leave it out"),
        (["links.rate=4", "links.down=1s"], "must be so many a second, minute, hour, day or month"),
        (["links.rate=4/month"], "down is missing"),
        (["links.rate=4/month", "links.down=50000min"], "is 50000min, but must be 1 ns to 2592000 s"),
        (["links.rate=4/month", "links.down=0s"], "is 0s, but must be 1 ns"),
        (["racks.rate=4/month"], "racks: unknown key"),
        (["links.rate=4/month,5/month"], "give one value"),
    ],
)
def test_rates_that_mean_nothing_are_refused(settings: list[str], problem: str):
    with pytest.raises(FileError, match=problem):
        load_rates(None, settings)


def test_settings_lie_over_a_file(tmp_path: Path):
    file = tmp_path / "failures.yaml"
    file.write_text("links: {rate: 4.2/min, down: 5s}\nt1s: {rate: 2/month, down: 12min}\n")
    rates = load_rates(file, ["t1s.rate=3/month"])
    assert dict(rates.given())["t1s"].a_month == pytest.approx(3)
    assert dict(rates.given())["links"].a_month == pytest.approx(4.2 * 60 * 24 * 30)
    assert rates.nic_ports is None


def test_a_table_has_both_transports_and_says_which_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    mrc = result(tmp_path / "mrc", [100, 90, 90, 100], FAULTS)
    rc = result(tmp_path / "rc", [100, 0, 0, 100], FAULTS, "rc")
    assert run(["plan", "--result", str(mrc), "--result", str(rc), *RATES]) == 0
    table = {line[:40].strip(): line[40:].split() for line in capsys.readouterr().out.splitlines()}
    share = 1 - math.exp(-0.1)
    row = next(cells for name, cells in table.items() if name.startswith("GPU hours a month in all"))
    assert row[-2:] == [f"{1440 * 0.1 * share:,.0f}", f"{1440 * share:,.0f}"]
    assert run(["plan", "--result", str(rc), *RATES, "--json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["drops"], job["lost_in_all"]) == ({"links": [1.0]}, pytest.approx(1440 * share))
    assert run(["plan", "--result", str(mrc), *RATES]) == 0
    assert "No result is of rc" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "Give --nics for a design, or --result"),
        (["--failures", "f.yaml", "--nics", "4"], "--failures needs --result"),
        (["--result", "r", "--nics", "4"], "--nics has no meaning with --result"),
        (["--result", "r", "--parts", "p.yaml"], "--parts has no meaning with --result"),
    ],
)
def test_options_of_a_design_and_of_a_result_do_not_mix(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
):
    assert run(["plan", *words]) == 2
    assert problem in capsys.readouterr().err


def test_jobs_of_different_sizes_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    one = result(tmp_path / "one", [100, 90, 90, 100], FAULTS)
    two = result(tmp_path / "two", [100, 90, 90, 100], FAULTS, flows=("h1>h2", "h2>h3", "h3>h1"))
    assert run(["plan", "--result", str(one), "--result", str(two), *RATES]) == 3
    assert "jobs of different sizes" in capsys.readouterr().err
