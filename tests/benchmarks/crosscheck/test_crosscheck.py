"""The comparison with htsim: the same work on both sides, what is read of htsim, and what is skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.crosscheck import __main__ as crosscheck
from benchmarks.crosscheck import htsim, ours
from benchmarks.crosscheck.htsim import Measured, SkippedError, TooSlowError
from benchmarks.crosscheck.scenarios import ACK, BELOW_T0, HOSTS, PAYLOAD, SCENARIOS, Constants
from mrc_lab.experiments.files import load_file
from mrc_lab.experiments.files.fabric_part import build_fabric
from mrc_lab.workloads.htsim.matrix_file import parse_matrix
from mrc_lab.workloads.htsim.topology import parse_topology

UEC_WIRE = 4262  # 4096 bytes, 142 of headers, and 24 of preamble, FCS and gap


def program(folder: Path, name: str, text: str) -> Path:
    made = folder / name
    made.write_text(f"#!/bin/sh\n{text}\n")
    made.chmod(0o755)
    return made


def test_both_sides_have_as_many_packets_of_as_many_bytes_on_the_line():
    assert ours.UET.wire == ours.MRC.wire == UEC_WIRE
    for scenario in SCENARIOS:
        for one, other in crosscheck.PAIRS:
            assert other.payload(one.wire) + ACK == one.wire
            there = scenario.matrix(other.payload(one.wire))
            here = scenario.matrix(PAYLOAD)
            assert [flow.size // other.payload(one.wire) for flow in there.flows] == [
                flow.size // PAYLOAD for flow in here.flows
            ]
            assert parse_matrix(there.text(), "x").nodes == HOSTS
        assert parse_topology(scenario.tree.text(), "x") == scenario.tree


def test_constants_are_those_that_uet_htsim_prints():
    constants = Constants(UEC_WIRE)
    assert constants.round_trip == pytest.approx(9384.32)  # network_max_unloaded_rtt 9.38432
    assert (constants.queue, constants.ecn_low, constants.ecn_high) == (28, 6, 23)


@pytest.mark.parametrize("transport", [ours.UET, ours.MRC, ours.RC, ours.RC_DCQCN], ids=lambda one: one.name)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_our_experiments_have_the_same_thresholds_in_packets(transport, scenario, tmp_path):
    (tmp_path / "flows.cm").write_text(scenario.matrix(PAYLOAD).text())
    (tmp_path / "x.yaml").write_text(transport.experiment(scenario))
    case = load_file(tmp_path / "x.yaml").cases[0]
    fabric, constants = build_fabric(case.fabric), Constants(transport.wire)
    queues = fabric.queues

    def frames(share: int) -> int:
        assert queues.frames_at(share, 25 * 10**9, fabric.mtu) == queues.frames_at(share, 100 * 10**9, fabric.mtu)
        return queues.frames_at(share, 100 * 10**9, fabric.mtu)

    assert frames(queues.trim) == frames(queues.trim_lasthop) == constants.queue
    assert frames(queues.pfc_xoff) == constants.queue
    low = constants.step if transport.step else constants.ecn_low
    assert frames(queues.ecn_low) == low
    if not transport.step:
        assert frames(queues.ecn_high) == constants.ecn_high
    assert queues.pfc == transport.pfc
    slow = {link.name for link in fabric.links if link.rate_bps == 25 * 10**9}
    assert len(slow) == (HOSTS // BELOW_T0 if scenario.slow else 0)


def test_flows_of_permutations_and_incasts_leave_their_rack():
    for scenario in SCENARIOS:
        assert all(one // BELOW_T0 != other // BELOW_T0 for one, other in scenario.pairs)
        assert len(set(scenario.pairs)) == len(scenario.pairs)


def test_what_htsim_prints_is_read():
    said = "Flow Uec_0_1 flowId 5 a finished at 176.5 total\nFlow x finished at 2e+02\nNew: 10 Rtx: 3 RTS: 0"
    assert htsim.read_output("htsim_uec", said, 2) == Measured((176.5, 200.0), 3)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("Unknown parameter -dcqcn\n", "this htsim_roce has no option -dcqcn"),
        ("Flow x finished at 1\nNew: 1 Rtx: 0", "htsim_roce ended 1 of 2 flows; it printed last: New: 1 Rtx: 0"),
        ("Usage htsim_roce [-nodes N]\n", "this htsim_roce does not know all of the options"),
        ("", "htsim_roce ended 0 of 2 flows; it printed last: nothing"),
    ],
)
def test_a_program_that_cannot_is_skipped(said, message):
    with pytest.raises(SkippedError, match=message):
        htsim.read_output("htsim_roce", said, 2)


def test_a_program_that_is_missing_or_has_no_slow_links_is_skipped(tmp_path):
    with pytest.raises(SkippedError, match="there is no htsim_uec"):
        htsim.measure(htsim.UEC, tmp_path, SCENARIOS[0], UEC_WIRE, 1)
    program(tmp_path, "htsim_eqds", "exit 0")
    with pytest.raises(SkippedError, match="has no links that are slow"):
        htsim.measure(htsim.EQDS, tmp_path, SCENARIOS[-1], UEC_WIRE, 1)


def test_a_program_gets_the_files_and_the_thresholds(tmp_path):
    flows = f"i=0; while [ $i -lt {HOSTS} ]; do echo Flow $i finished at 5; i=$((i+1)); done"
    kept = f'echo "$@" > {tmp_path}/words; grep -q 128 flows.cm || exit 9'
    program(tmp_path, "htsim_uec", f'{kept}\n{flows}\necho "New: 9 Rtx: 2"')
    found = htsim.measure(htsim.UEC, tmp_path, SCENARIOS[0], UEC_WIRE, 7)
    assert found == Measured((5.0,) * HOSTS, 2)
    words = (tmp_path / "words").read_text()
    for expected in ("-mtu 4262", "-q 28", "-ecn 6 23", "-seed 7", "-tiers 2", "-linkspeed 100000"):
        assert expected in words


def test_a_program_that_comes_to_no_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(htsim, "_LONGEST", 0.0)
    program(tmp_path, "htsim_uec", "while :; do echo more; done")
    with pytest.raises(TooSlowError, match="has not ended"):
        htsim.measure(htsim.UEC, tmp_path, SCENARIOS[0], UEC_WIRE, 1)


def test_ratios_are_marked_beyond_a_fifth():
    assert crosscheck.ratio(180, 175) == "1.03 (180 / 175)"
    assert crosscheck.ratio(180, 140) == "**1.29** (180 / 140)"
    assert crosscheck.ratio(1, 140) == "**0.01** (1 / 140)"
    assert crosscheck.ratio(0, 0) == "= (0 / 0)"
    assert crosscheck.ratio(5, 0) == "**more** (5 / 0)"


def test_the_table_says_which_htsim_it_found_and_what_is_missing(tmp_path, capsys, monkeypatch):
    flows = f"i=0; while [ $i -lt {HOSTS} ]; do echo Flow $i finished at 200; i=$((i+1)); done"
    program(tmp_path, "htsim_uec", f'{flows}\necho "New: 9 Rtx: 2"')
    monkeypatch.setattr(ours, "measure", lambda transport, scenario, seed: Measured((100.0, 300.0), seed))
    assert crosscheck.main([str(tmp_path), "permutation"]) == 0
    printed = capsys.readouterr()
    assert f"htsim in {tmp_path}" in printed.out
    assert "htsim_uec" in printed.out
    assert "| permutation | uet | NSCC with REPS | 1.00 (200 / 200) |" in printed.out
    assert "skipped: permutation, RoCE, PFC: there is no htsim_roce" in printed.err


def test_a_folder_without_htsim_is_refused(tmp_path, capsys):
    assert crosscheck.main([]) == 2
    assert crosscheck.main([str(tmp_path)]) == 2
    assert "make cross-check HTSIM=PATH" in capsys.readouterr().err
