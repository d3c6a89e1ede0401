"""Warnings of files whose metrics would mean something else: what they say, when, and that runs bear them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_host.verbs_types import PathReason, PathState
from mrc_lab.cli.main import run as mrc
from mrc_lab.experiments.running.case_warnings import case_warnings
from mrc_lab.experiments.running.simulated_backend import simulated_backend
from tests.mrc_lab.experiments.running.cases import case_of, run

WRITE = "{kind: write_bw, pairs: [h1>h3, h2>h4], outstanding: 8}"
PROBES = "{settings: {probe_interval: 100us, probe_successes: 3, probe_timeout: 20us}}"
BAD = PathState.ASSUMED_BAD.value
# By these a path is out for at least 300 us, and at most 280 us after the fault.


def warnings_of(case):
    with simulated_backend(case, 1) as backend:
        return list(case_warnings(case, backend.fabric, backend.time_scale))


def restored(recording):
    """How long each path over the link that was cut was out until probes brought it back, while the run lasted."""
    out = {record.host: record.time for record in recording.paths if record.ev == 0 and record.new == BAD}
    return [
        record.time - out[record.host]
        for record in recording.paths
        if record.ev == 0 and record.reason == PathReason.PROBE.value and record.time <= recording.end
    ]


def faulty(fault, duration="2ms", **parts):
    return case_of(WRITE, duration, transport=PROBES, faults=f"[{fault}]", **parts)


CUT = "{kind: link_down, at: 200us, until: 400us, link: 't0-0:t1-0@p0'}"


@pytest.mark.second_ring
def test_a_fault_too_short_for_probes_causes_a_warning_confirmed_by_the_run():
    case = faulty(CUT)
    line = case.faults[0].line
    assert warnings_of(case) == [
        f"line {line}: the fault lasts 200 us, but a path that it takes out of use stays out for 300 us at least, since"
        " 3 probes in a row, 100 us apart, have to be answered"
    ]
    recording = run(case)
    assert recording.warnings[:1] == tuple(warnings_of(case))
    # Plane 0 has only half of its uplinks meanwhile: all others wait for it.
    assert all("@p0, or its plane on the way" in warning for warning in recording.warnings[1:])
    found = restored(recording)
    assert len(found) == 2
    assert min(found) >= 300_000


@pytest.mark.second_ring
def test_a_run_too_short_for_path_recovery_causes_a_warning_confirmed_by_the_run():
    cut = CUT.replace("until: 400us", "until: 900us")
    (warning,) = warnings_of(faulty(cut, "1100us"))
    assert "the run ends 200 us after the fault, but it may take 280 us until a path is used again" in warning
    assert not restored(run(faulty(cut, "1100us")))
    assert warnings_of(faulty(cut, "1200us")) == []
    assert restored(run(faulty(cut, "1250us")))


@pytest.mark.parametrize(
    "fault",
    [
        CUT.replace("t0-0:t1-0@p0", "h1@p0"),  # carrier of a NIC's own port
        CUT.replace("until: 400us, ", ""),  # never over
        "{kind: loss, at: 200us, until: 400us, link: 't0-0:t1-0@p0', probability: 1%}",
        "{kind: rate, at: 200us, until: 400us, link: 't0-0:t1-0@p0', rate: 10G}",
        "{kind: flap, at: 200us, until: 400us, link: 't0-0:t1-0@p0', down: 10us, up: 20us}",
    ],
)
def test_faults_that_retire_no_paths_cause_no_warning(fault):
    assert warnings_of(faulty(fault)) == []


@pytest.mark.parametrize(
    "fault",
    [
        "{kind: power_off, at: 200us, until: 400us, switch: t1-0@p0}",
        "{kind: blackhole, at: 200us, until: 400us, switch: t1-0@p0}",
        "{kind: loss, at: 200us, until: 400us, link: 't0-0:t1-0@p0', probability: 100%}",
    ],
)
def test_other_faults_that_retire_paths_cause_a_warning(fault):
    assert len(warnings_of(faulty(fault))) == 1


def test_rc_causes_no_warning_and_many_faults_share_one():
    assert warnings_of(case_of(WRITE, "2ms", transport="{type: rc}", faults=f"[{CUT}]")) == []
    (warning,) = warnings_of(faulty(", ".join([CUT] * 3)))
    assert warning.endswith("(2 more faults of this file too)")


def test_a_run_or_tenant_of_a_few_rtts_causes_a_warning():
    (warning,) = warnings_of(case_of(WRITE, "40us"))
    assert warning.startswith("the run lasts 40 us, ")
    assert warning.endswith("congestion control hardly gets to act in less than 10")
    assert warnings_of(case_of(WRITE, "400us")) == []
    late = case_of(WRITE.replace("kind", "start: 380us, kind"), "400us")
    assert warnings_of(late)[0].startswith("the workload begins 20 us before the end of the run, ")


@pytest.fixture
def short(tmp_path):
    file = tmp_path / "short.yaml"
    file.write_text(
        "fabric: {planes: 2, t0: 2, t1: 2, hosts: 4}\nduration: 1ms\n"
        f"workload: {{kind: permutation}}\ntransport: {PROBES}\nfaults:\n  - {CUT}\n"
    )
    return file


def test_warnings_are_printed_and_in_the_report(short: Path, tmp_path: Path, capsys):
    mrc(["run", str(short), "--results", str(tmp_path)])
    warning = "line 6: the fault lasts 200 us, but a path that it takes out of use stays out for 300 us at least"
    assert f"Warning: {warning}" in capsys.readouterr().err
    assert warning in (tmp_path / "short" / "latest" / "report.html").read_text("utf-8")
    assert warning in (tmp_path / "short" / "latest" / "summary.json").read_text("utf-8")


def test_a_check_prints_the_warnings_of_a_run(short: Path, capsys):
    assert mrc(["run", str(short), "--check"]) == 0
    in_simulation = capsys.readouterr().err
    mrc(["run", str(short), "--results", str(short.parent)])
    printed = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Warning: ")]
    assert in_simulation.splitlines() == printed


def test_a_check_for_emulation_warns_of_its_times(short: Path, capsys):
    """There timers are stretched less than rates are divided, so it takes a shorter fault."""
    short.write_text(short.read_text().replace("until: 400us", "until: 201us"))
    assert mrc(["run", str(short), "--check", "--backend", "emulation"]) == 0
    assert "Warning: line 6: the fault lasts 1 us, but a path that it takes out of use" in capsys.readouterr().err


def test_a_sweep_prints_each_warning_once_and_ten_at_most(short: Path, capsys):
    def warnings(*words):
        assert mrc(["sweep", str(short), *words, "--check"]) == 0
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("Warning: ")]

    (warning,) = warnings("--seeds", "1-3")
    assert warning.startswith("Warning: short: line 6: the fault lasts 200 us, ")
    first, second = warnings("--set", "fabric.planes=1,2")
    assert first.startswith("Warning: short (with fabric.planes=1): line 6: ")
    assert second.startswith("Warning: short (with fabric.planes=2): line 6: ")
    many = warnings("--set", f"duration={','.join(f'{1000 + n}us' for n in range(12))}")
    assert len(many) == 11
    assert many[-1] == "Warning: 2 more like these."


def test_a_check_of_a_sweep_says_what_names_came_to_mean_where_that_changes(short: Path, capsys):
    assert mrc(["run", str(short), "--check"]) == 0
    extent = capsys.readouterr().out.splitlines()[:-1]
    assert extent
    settings = ["--set", "fabric.planes=1,2", "--set", "duration=1ms,2ms"]
    assert mrc(["sweep", str(short), *settings, "--check"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines == [f"short (with fabric.planes=1, duration=1ms): {line}" for line in extent]
    assert last == "4 runs, all in order"
