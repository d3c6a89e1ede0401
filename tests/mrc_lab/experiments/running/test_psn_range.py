"""A file's queue pairs have a range of PSNs that suffices, or the run and its report say that it does not."""

from __future__ import annotations

import pytest

from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.running.psn_range import psn_range_warnings
from mrc_lab.experiments.running.simulated_backend import simulated_backend
from mrc_lab.reports.run_and_report import run_and_report
from tests.mrc_lab.experiments.running.cases import case_of

# A round trip of 2 ms at 50 Gb/s holds 12.5 MB; 1,023 packets of 4 KB are 4.2.
LONG = "{planes: 2, t0: 2, t1: 2, hosts: 4, rate: 25G, delay: 250us}"
LOAD = "{kind: write_bw, pairs: h1>h3, message: 16K, outstanding: 1}"


def attributes(transport, fabric=LONG, load=LOAD):
    case = case_of(load, fabric=fabric, transport=transport, duration="4ms", measure="{bin: 1ms, warmup: 0us}")
    with simulated_backend(case, 1) as backend:
        chosen = backend.attributes(dict(case.transport.attributes))
        return chosen.mpr, chosen.mpr_dest, tuple(psn_range_warnings(case, backend.fabric))


def test_the_default_psn_range_is_sufficient():
    mpr, mpr_dest, warnings = attributes("{type: mrc}")
    assert mpr * 128 * 4096 >= 3 * 12_500_000
    assert (mpr_dest, warnings) == (mpr, ())
    smaller, _, warnings = attributes("{type: mrc, attributes: {path_mtu: 2048}}")
    assert smaller in (2 * mpr - 1, 2 * mpr)
    assert warnings == ()
    assert attributes("{type: mrc}", "{planes: 2, t0: 2, t1: 2, hosts: 4, rate: 25G}") == (8, 8, ())


def test_the_range_of_the_other_direction_follows_the_given_one():
    assert attributes("{type: mrc, attributes: {mpr: 40}}")[:2] == (40, 40)
    assert attributes("{type: mrc, attributes: {mpr_dest: 40}}")[:2] == (40, 40)
    assert attributes("{type: mrc, attributes: {mpr: 40, mpr_dest: 30}}")[:2] == (40, 30)


def test_a_range_below_the_bdp_causes_a_warning_with_a_sufficient_value():
    mpr, _, (warning,) = attributes("{type: mrc, attributes: {mpr: 8}}")
    assert mpr == 8
    assert "a flow reaches at most 33 % of its NIC's rate: an MPR of 8 lets 1 queue pair have 1,024 packets" in warning
    assert warning.endswith("leave mpr out, or give at least 72")
    assert attributes("{type: mrc, qps: 4, attributes: {mpr: 8}}")[2] == (), "four queue pairs have four ranges"
    assert attributes("{type: rc, attributes: {mpr: 8}}")[2] == (), "RC has none"


def test_the_flow_with_the_fewest_queue_pairs_counts():
    def load(qps):
        return f"{{kind: write_bw, pairs: [{{pair: h1>h3, qps: {qps}}}, h2>h4], message: 16K, outstanding: 1}}"

    assert attributes("{type: mrc, qps: 4, attributes: {mpr: 8}}", load=load(8))[2] == ()
    (warning,) = attributes("{type: mrc, qps: 4, attributes: {mpr: 8}}", load=load(2))[2]
    assert "lets 2 queue pairs have 1,024 packets" in warning


def test_a_bdp_beyond_the_field_causes_a_warning():
    far = "{planes: 8, t0: 2, t1: 2, hosts: 4, rate: 100G, delay: 250us}"  # 200 MB; 255 x 128 packets are 134
    mpr, _, (warning,) = attributes("{type: mrc}", far)
    assert mpr == 255
    assert warning.endswith("255 is the most, so give each flow at least 2 queue pairs (qps), or a larger path_mtu")
    assert attributes("{type: mrc, qps: 2}", far)[2] == ()


@pytest.mark.parametrize("mpr", [8, 72])
def test_the_warning_is_printed_and_is_in_summary_and_report(tmp_path, mpr):
    text = (
        f"fabric: {LONG}\nworkload: {LOAD}\nduration: 4ms\nmeasure: {{bin: 1ms, warmup: 0us}}\n"
        f"transport: {{attributes: {{mpr: {mpr}}}}}\n"
    )
    lines: list[str] = []
    result = run_and_report(load_text(text), "sim", 1, tmp_path, notify=lines.append)
    (case,) = result.summary["cases"].values()
    warning_text = "reaches at most 33 %"
    assert any(warning_text in line for line in lines) == (mpr == 8)
    assert any(warning_text in warning for warning in case["warnings"]) == (mpr == 8)
    assert (warning_text in (result.folder / "report.html").read_text()) == (mpr == 8)
