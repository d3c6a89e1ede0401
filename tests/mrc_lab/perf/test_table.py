import pytest

from mrc_lab.perf import table
from mrc_lab.perf.measure import OperationTiming, Report, ResultRow
from mrc_lab.perf.options import parse
from mrc_lab.workloads.collectives.communicator import TransferCounters
from tests.mrc_lab.perf.printed import footer, rows


def test_the_heading_matches_nccl_tests():
    options = parse("all_reduce", ["-b", "8", "-e", "64", "-f", "2", "-n", "7"])
    lines = table.heading(
        options.plan, options.step, [table.RankDevice(12, "h1", "nic1"), table.RankDevice(13, "h2", "nic2")]
    )
    assert all(line.startswith("#") for line in lines)
    assert "minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 7 agg iters: 1 validation: 1" in lines[0]
    assert [line.split()[2:] for line in lines[3:5]] == [
        ["0", "Group", "0", "Pid", "12", "on", "h1", "device", "0", "[MRC]", "nic1"],
        ["1", "Group", "0", "Pid", "13", "on", "h2", "device", "0", "[MRC]", "nic2"],
    ]
    assert lines[-3].split() == ["#", "out-of-place", "in-place"]
    names = ["time", "algbw", "busbw", "#wrong"]
    assert lines[-2].split() == ["#", "size", "count", "type", "redop", "root", *names, *names]
    assert lines[-1].split() == ["#", "(B)", "(elements)", *["(us)", "(GB/s)", "(GB/s)"] * 2]


def test_columns_are_aligned_with_their_names():
    heading = table.heading(parse("all_reduce", []).plan, "", [])[-2]
    line = table.line(
        ResultRow(1 << 30, 1 << 28, "double", "prod", 1023, OperationTiming(9e9, 2e11, 2e11, 123456), None)
    )
    assert len(line) == len(heading)
    for name, value in (("size", "1073741824"), ("count", "268435456"), ("type", "double"), ("root", "1023")):
        assert heading.index(name) + len(name) == line.index(value) + len(value)


@pytest.mark.parametrize("speed", [1e3, 6.25e6, 4.3e8, 1.5e9, 3.2e10, 4e11])
def test_printed_numbers_parse_back(speed):
    size = 1 << 20
    time = size / speed * 1e9
    timings = OperationTiming(time, speed, speed * 1.5, 0), OperationTiming(time, speed, speed, None)
    row = ResultRow(size, size // 4, "float", "sum", -1, *timings)
    (read,) = rows([table.line(row)])
    assert (read["size"], read["count"], read["type"], read["redop"], read["root"]) == (
        "1048576", "262144", "float", "sum", "-1",
    )  # fmt: skip
    assert read["out", "time"] == pytest.approx(time / 1e3, rel=1e-3)
    assert read["out", "busbw"] == pytest.approx(speed * 1.5 / 1e9, rel=0.01)
    assert (read["out", "wrong"], read["in", "wrong"]) == (0, None)


def test_missing_in_place_results_are_not_available():
    (read,) = rows([table.line(ResultRow(8, 2, "float", "none", -1, OperationTiming(1.0, 1.0, 1.0, 0), None))])
    assert {read["in", name] for name in ("time", "algbw", "busbw", "wrong")} == {None}


def test_the_footer_gives_errors_and_average_bandwidth():
    good = ResultRow(8, 2, "float", "sum", -1, OperationTiming(1.0, 1e9, 2e9, 0), OperationTiming(1.0, 1e9, 4e9, 0))
    lines = table.ending(Report((good,), TransferCounters(9, 900)), "all_reduce")
    assert footer(lines, "Out of bounds values") == "0 OK"
    assert float(footer(lines, "Avg bus bandwidth")) == 3
    bad = ResultRow(8, 2, "float", "sum", -1, OperationTiming(1.0, 1e9, 2e9, 3), None)
    lines = table.ending(Report((bad,), TransferCounters(9, 900, 2, 50)), "all_reduce")
    assert footer(lines, "Out of bounds values") == "5 FAILED"
    assert footer(lines, "Chunk checksums") == "9 compared, 2 wrong"
