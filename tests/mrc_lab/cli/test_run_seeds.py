"""``mrc run --seeds``: which seeds, what is printed, and the exit status."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from mrc_lab.cli.main import run as mrc
from mrc_lab.cli.options import SEEDS

FILE = """\
fabric: {planes: 2, t0: 2, t1: 2, hosts: 4}
workload: {kind: write_bw, pairs: h1>h3, message: 16K, total: 64K}
duration: 200us
report:
  - {metric: throughput}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "trial.yaml"
    place.write_text(FILE)
    return place


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", (1, 2, 3)), ("1", (1,)), ("7-7", (7,)), ("2-4,9", (2, 3, 4, 9)), ("0-0", (0,)), ("5,1", (5, 1))],
)
def test_a_single_number_is_how_many(text: str, seeds: tuple[int, ...]):
    assert SEEDS.convert(text, None, None) == seeds


@pytest.mark.parametrize("text", ["0", "00", "many", "-1", "3-1", "2000000", "1.5", ""])
def test_other_texts_are_refused(text: str):
    with pytest.raises(click.BadParameter):
        SEEDS.convert(text, None, None)


def test_means_and_intervals_are_printed(file: Path, capsys: pytest.CaptureFixture[str]):
    assert mrc(["run", str(file), "--seeds", "2", "--jobs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["metric", "mean", "95", "%", "interval", "min", "max", "seeds", "outcome"]
    (throughput,) = (line for line in lines if line.startswith("throughput"))
    assert throughput.split()[-1] == "2"
    assert "2 seeds: pass 2" in "\n".join(lines)
    assert "Student's t" in "\n".join(lines)
    report = Path(lines[-1].removeprefix("report: "))
    assert report.is_file()


def test_a_seed_that_fails_decides_the_exit_status(file: Path):
    file.write_text(FILE + "expect:\n  - {metric: throughput, relation: at_least, value: 900G}\n")
    assert mrc(["run", str(file), "--seeds", "2"]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", "2", "--seed", "3"], "exclude each other"),
        (["--seeds", "2", "--web"], "--web plays one run"),
        (["--jobs", "2"], "--jobs is for several seeds"),
        (["--seeds", "2", "--jobs", "2", "--backend", "emulation"], "one after the other"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]
):
    assert mrc(["run", str(file), *options]) == 2
    assert message in capsys.readouterr().err
