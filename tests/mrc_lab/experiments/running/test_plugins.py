"""Plugins in experiment files: used by name, refused with a message, and named when they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_lab.errors import ExperimentError, FileError
from mrc_lab.experiments.files import load_file
from mrc_lab.reports.run_and_report import run_and_report
from tests.mrc_host.test_plugins import HEAD

SELECTION = """
@path_selection("probe_sel")
class Probe(PathSelection):
    log = []
    def choose(self, plane, paths):
        {choose}
    def on_ack(self, path, rtt, marked):
        Probe.log.append(("ack", path, rtt))
    def on_loss(self, path):
        Probe.log.append(("loss", path, 0))
    def on_unusable(self, path):
        Probe.log.append(("unusable", path, 0))

@congestion_control("probe_cc")
class ProbeCc(CongestionControl):
    def __init__(self, link):
        super().__init__(link.window)
    def on_ack(self, acked, received, rtt, marked, now, penalty=0, restore=False):
        {on_ack}

@workload("probe_work")
def work(size=1, times=1):
    from mrc_lab.workloads.schedules.schedule import Operation, OperationKind
    for _ in range(times):
        yield Operation(0, OperationKind.SEND, size, peer=1)
        yield Operation(1, OperationKind.RECV, size, peer=0)
"""
WRITES = "{kind: write_bw, pairs: [h1>h3], message: 256K, total: 4M}"


def experiment(
    folder: Path, choose: str = "return -1", on_ack: str = "pass", work: str = WRITES, more: str = ""
) -> Path:
    (folder / "mine.py").write_text(HEAD + SELECTION.format(choose=choose, on_ack=on_ack))
    file = folder / "mine.yaml"
    file.write_text(
        "fabric: {planes: 2, t0: 2, t1: 4, hosts: 4, rate: 100G}\nplugins: [mine.py]\n"
        f"workload: {work}\nduration: 5ms\n{more}\n"
    )
    return file


def test_a_path_selection_plugin_chooses_paths_and_receives_events(tmp_path: Path) -> None:
    """Always the first of each plane: every packet of a plane takes one path."""
    more = (
        "transport: {path_selection: probe_sel, congestion: probe_cc, window: 256K}\n"
        "faults: [{kind: link_down, link: 't0-0:t1-*@p0', at: 100us, until: 1ms}]"
    )
    more = more.replace("congestion: probe_cc, window: 256K", "congestion: probe_cc")
    file = experiment(tmp_path, "return min(paths)", more=more)
    result = run_and_report(load_file(file), "sim", 1, tmp_path / "results")
    assert result.summary["verdict"] == "pass"
    from mrc_host import plugins

    log = plugins.PATH_SELECTIONS["probe_sel"].log  # type: ignore[attr-defined]
    kinds = {kind for kind, *_ in log}
    assert kinds == {"ack", "loss", "unusable"}
    early = {path for kind, path, _ in log[:20] if kind == "ack"}
    assert len(early) == 2  # one a plane
    assert all(rtt > 0 for kind, _, rtt in log if kind == "ack")


def test_an_unusable_choice_falls_back_to_rotation(tmp_path: Path) -> None:
    more = "transport: {path_selection: probe_sel}"
    wrong = run_and_report(load_file(experiment(tmp_path, "return 99999", more=more)), "sim", 1, tmp_path / "a")
    none = run_and_report(load_file(experiment(tmp_path, more=more)), "sim", 1, tmp_path / "b")
    assert wrong.summary["cases"] == none.summary["cases"]


@pytest.mark.parametrize(
    ("choose", "on_ack", "where"),
    [("return 1 // 0", "pass", "choose"), ("return -1", "raise KeyError(5)", "on_ack")],
)
def test_a_plugin_that_fails_ends_the_run_with_its_name_and_traceback(
    tmp_path: Path, choose: str, on_ack: str, where: str
) -> None:
    for work in (WRITES, "{kind: own, schedule: probe_work}", "{kind: collective, operation: all_reduce, bytes: 1M}"):
        more = "transport: {path_selection: probe_sel, congestion: probe_cc}"
        file = experiment(tmp_path, choose, on_ack, work, more)
        with pytest.raises(ExperimentError) as raised:
            run_and_report(load_file(file), "sim", 1, tmp_path / "results")
        text = str(raised.value)
        assert text.startswith(f"the plugin {tmp_path}/mine.py, line ")
        assert f"failed in {where}: " in text
        assert "Traceback" in text


@pytest.mark.parametrize("value", ["None", "'x'"])
def test_a_value_of_the_wrong_type_is_reported_with_the_plugins_in_use(tmp_path: Path, value: str) -> None:
    """It is noticed in the transport, where no line of the plugin is on the stack."""
    file = experiment(tmp_path, f"return {value}", more="transport: {path_selection: probe_sel}")
    with pytest.raises(ExperimentError) as raised:
        run_and_report(load_file(file), "sim", 1, tmp_path / "results")
    text = str(raised.value)
    assert text.startswith("TypeError: ")
    assert f"does one of the plugins return or set something else than it should? ({tmp_path}/mine.py)" in text
    assert "Traceback" in text


def test_a_file_may_name_its_plugins_behind_what_uses_them(tmp_path: Path) -> None:
    file = experiment(tmp_path, work="{kind: own, schedule: probe_work}")
    first, plugin, *rest = file.read_text().splitlines()
    file.write_text("\n".join([*rest, first, plugin]))
    assert load_file(file).cases[0].tenants


@pytest.mark.parametrize(
    ("work", "more", "error"),
    [
        (WRITES, "transport: {path_selection: other}", "Unknown path selection 'other'; there is 'probe_sel'"),
        (
            WRITES,
            "transport: {congestion: other}",
            "Unknown congestion control 'other': use 'nscc', 'fixed', 'none' or 'pro",
        ),
        ("{kind: own, schedule: other}", "", "no plugin has a workload other; there is probe_work"),
        ("{kind: own, schedule: {name: probe_work, size: -1}}", "", "rank, peer or size is out of range"),
        ("{kind: own, schedule: {name: probe_work, sizes: 1}}", "", "probe_work: TypeError: work() got an unexpected"),
        ("{kind: own, schedule: {name: probe_work, times: 5, size: a}}", "", "line 3"),
        (WRITES, "plugins: [none.py]", "is given twice"),
    ],
)
def test_invalid_plugins_are_reported_before_the_run(tmp_path: Path, work: str, more: str, error: str) -> None:
    with pytest.raises(FileError) as raised:
        load_file(experiment(tmp_path, work=work, more=more))
    assert error in str(raised.value)
