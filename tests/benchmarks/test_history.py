import io
import subprocess

import pytest

from benchmarks import __main__ as benchmarks_main
from benchmarks import history
from benchmarks.history import BenchmarkRun, HistoryError, changes, keep, kept, this_run
from benchmarks.report import Measurement, report_changes

WORDS = (
    '{"commit": "a", "changed": false, "machine": "m", "time": 0, '
    '"measurements": [{"name": "n", "value": "v", "unit": "u"}]}'
)


def run(commit, *measurements, changed=False, machine="2 x here"):
    return BenchmarkRun(commit, changed, machine, 0.0, measurements)


def rate(value, ratio=None):
    return Measurement("rate", value, "packets/s", ratio, None if ratio is None else "bare loop")


def cost(value, ratio=None):
    return Measurement("cost", value, "us/packet", ratio, None if ratio is None else "copy")


def test_what_is_kept_is_read_again_in_order(tmp_path):
    file = tmp_path / "new" / "history.jsonl"
    first, second = run("a", rate(10.0), cost(2.0, 0.5)), run("b", rate(9.0), changed=True)
    keep(first, file)
    keep(second, file)
    assert kept(file) == [first, second]


def test_no_history_is_an_empty_one(tmp_path):
    assert kept(tmp_path / "history.jsonl") == []


@pytest.mark.parametrize("line", ["", "nonsense", "{}", "[]", '{"measurements": [{}]}', '{"measurements": 3}', WORDS])
def test_a_damaged_line_is_named(tmp_path, line):
    file = tmp_path / "history.jsonl"
    keep(run("a", rate(10.0)), file)
    with file.open("a") as out:
        out.write(line + "\n")
    with pytest.raises(HistoryError, match="line 2"):
        kept(file)


def test_a_history_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "bench").write_text("a file where the folder should be")
    with pytest.raises(HistoryError, match="cannot be written"):
        keep(run("a", rate(10.0)), tmp_path / "bench" / "history.jsonl")


@pytest.mark.skipif(not (history.ROOT / ".git").exists(), reason="these sources are not a git checkout")
def test_this_run_knows_the_commit():
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=history.ROOT, stdout=subprocess.PIPE, text=True, check=True)
    assert head.stdout.startswith(this_run([]).commit)


def test_more_packets_and_less_time_are_better():
    found = list(changes([run("a", rate(100.0), cost(2.0)), run("b", rate(150.0), cost(3.0))]))
    assert [(change.name, change.gain, change.mark) for change in found] == [
        ("rate", pytest.approx(0.5), "better"),
        ("cost", pytest.approx(-0.5), "worse"),
    ]


def test_a_change_counts_only_as_far_as_value_and_ratio_agree():
    (busy,) = changes([run("a", rate(100.0, 0.5)), run("b", rate(50.0, 0.5))])  # the bare loop was slower as well
    assert (busy.gain, busy.mark) == (0, "")
    (slower,) = changes([run("a", rate(100.0, 0.5)), run("b", rate(50.0, 0.4))])
    assert (slower.gain, slower.mark) == (pytest.approx(-0.2), "worse")
    (share,) = changes([run("a", cost(2.0, 0.2)), run("b", cost(1.0, 0.4))])  # of a total that has shrunk by more
    assert (share.gain, share.mark) == (0, "")


def test_small_changes_are_not_marked():
    (change,) = changes([run("a", rate(100.0)), run("b", rate(95.0))])
    assert (change.gain, change.mark) == (pytest.approx(-0.05), "")


def test_several_runs_of_a_tree_count_by_their_median():
    runs = [run("a", rate(value)) for value in (100.0, 10.0, 101.0)] + [run("b", rate(50.0)), run("b", rate(100.0))]
    (change,) = changes(runs)
    assert (change.before, change.now) == (100.0, 75.0)


def test_the_tree_before_is_the_latest_other_one_that_measured_the_same():
    runs = [run("a", rate(1.0)), run("b", rate(2.0)), run("b", cost(1.0)), run("c", cost(9.0)), run("c", rate(4.0))]
    (change,) = changes(runs)
    assert (change.before, change.now) == (2.0, 4.0)


def test_uncommitted_changes_make_another_tree():
    (change,) = changes([run("a", rate(1.0)), run("a", rate(2.0), changed=True)])
    assert (change.before, change.now) == (1.0, 2.0)


def test_other_machines_are_not_compared():
    assert list(changes([run("a", rate(1.0), machine="other"), run("b", rate(2.0))])) == []


def test_sizes_are_neither_better_nor_worse():
    links = [Measurement("fabric_links", value, "links") for value in (10, 20)]
    (change,) = changes([run("a", links[0]), run("b", links[1])])
    assert (change.gain, change.mark) == (None, "")


def test_the_command_keeps_and_compares(tmp_path, monkeypatch, capsys):
    file = tmp_path / "history.jsonl"
    keep(run("a", rate(50.0), machine=this_run([]).machine), file)
    monkeypatch.setattr("benchmarks.fabric_bringup.measure", lambda: [rate(100.0)])
    monkeypatch.setattr("benchmarks.fabric_perftest.measure", list)
    assert benchmarks_main.main(["fabric"], file) == 0
    assert len(kept(file)) == 1
    assert benchmarks_main.main(["--history", "fabric"], file) == 0
    assert [each.measurements for each in kept(file)] == [(rate(50.0),), (rate(100.0),)]
    printed = capsys.readouterr()
    assert "better" in printed.err
    assert printed.out.count('"rate"') == 2


def test_a_damaged_history_is_refused_before_anything_is_measured(tmp_path, monkeypatch, capsys):
    file = tmp_path / "history.jsonl"
    file.write_text("nonsense\n")
    monkeypatch.setattr("benchmarks.fabric_bringup.measure", lambda: pytest.fail("measured"))
    assert benchmarks_main.main(["fabric", "--history"], file) == 3
    assert "line 1" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--history"], ["nothing"], ["fabric", "--histroy"]])
def test_wrong_arguments_print_the_usage(arguments, tmp_path, capsys):
    assert benchmarks_main.main(arguments, tmp_path / "history.jsonl") == 2
    assert "usage: " in capsys.readouterr().err


def test_changes_are_printed():
    out = io.StringIO()
    report_changes("b+", changes([run("a", rate(100.0)), run("b", rate(50.0), changed=True)]), out)
    assert "worse" in out.getvalue()
    out = io.StringIO()
    report_changes("b", [], out)
    assert "Nothing to compare with yet" in out.getvalue()
