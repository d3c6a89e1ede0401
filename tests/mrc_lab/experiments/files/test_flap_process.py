from __future__ import annotations

from itertools import pairwise

import pytest

from mrc_lab.errors import FileError
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files.fault_draws import draw_faults
from mrc_lab.experiments.running.run_experiment import run_experiment
from tests.seeds import SEED

FILE = """
fabric: {{hosts: 8, planes: 2, t0: 2, t1: 4, rate: 100G}}
workload: {{kind: permutation, shift: 4}}
duration: {duration}
flaps: {flaps}
"""


def flaps(text: str, duration: str = "100ms", seed: int = SEED):
    (case,) = draw_faults(load_text(FILE.format(flaps=text, duration=duration)), seed).cases
    return case.faults


def refused(text: str) -> str:
    with pytest.raises(FileError) as caught:
        load_text(FILE.format(flaps=text, duration="100ms"))
    return str(caught.value)


def test_flaps_come_as_often_and_last_as_long_as_the_file_says():
    print("seed", SEED)
    found = flaps("{rate: 10000/s, down: 2ms}")
    assert len(found) == pytest.approx(1000, rel=0.15)
    over = [fault.until - fault.at for fault in found if fault.until is not None]
    assert sum(over) / len(over) == pytest.approx(2_000_000, rel=0.15)
    assert all(one.at <= other.at for one, other in pairwise(found))
    assert {fault.fault.link for fault in found} == {
        f"t0-{t0}:t1-{t1}@p{p}" for t0 in (0, 1) for t1 in range(4) for p in (0, 1)
    }


@pytest.mark.parametrize(("text", "per_second"), [("600/min", 10), ("36e3/h", 10), ("10/s", 10)])
def test_rates_have_units(text, per_second):
    (case,) = load_text(FILE.format(flaps=f"{{rate: {text}}}", duration="100ms")).cases
    assert case.flaps[0].rate == pytest.approx(per_second)


def test_the_seed_decides_and_other_processes_change_nothing():
    first = flaps("{rate: 1000/s}", seed=1)
    assert first == flaps("{rate: 1000/s}", seed=1) != flaps("{rate: 1000/s}", seed=2)
    both = flaps("[{rate: 1000/s}, {rate: 1000/s, of: nic-t0}]", seed=1)
    assert list(both[: len(first)]) == list(first)
    assert all(fault.fault.link.startswith("h") for fault in both[len(first) :])


def test_links_may_be_named():
    assert {fault.fault.link for fault in flaps("{rate: 1000/s, of: 't0-0:t1-*@p1'}")} <= {
        f"t0-0:t1-{t1}@p1" for t1 in range(4)
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{rate: 4}", "line 5: flaps.rate: must be so many a second, minute, hour, day or month, as in 4.2/min"),
        ("{rate: 4/year}", "line 5: flaps.rate: must be so many"),
        ("{rate: 0/min}", "line 5: flaps.rate: must be more than 0"),
        ("{rate: -1/min}", "line 5: flaps.rate: must be more than 0"),
        ("{rate: 4/min, of: t1-t2}", "line 5: flaps.of: there are no t1-t2 links"),
        ("{rate: 4/min, of: 't9-*'}", "line 5: flaps.of: "),
        ("{rate: 1e9/s}", "line 5: flaps.rate: makes more than"),
        ("{of: t0-t1}", "rate is missing"),
    ],
)
def test_what_makes_no_flaps_is_refused(text, words):
    assert words in refused(text)


def test_both_backends_run_them():
    text = FILE.format(flaps="{rate: 20000/s, down: 100us}", duration="200us")
    spans = [run_experiment(load_text(text), backend, 3)["only"].faults for backend in ("sim", "scale")]
    assert spans[0] == spans[1] != ()
