"""Faults that each are possible, and together more than a table of a switch holds."""

from __future__ import annotations

import pytest

from mrc_lab.experiments.files import FileError, load_text
from tests.topologies.faults.spells import known

FILE = """\
fabric: {{planes: 1, t0: 2, t1: 2, hosts: 66}}
workload: {{kind: write_bw, pairs: h1>h34, message: 16K}}
duration: 100us
faults:
  - {{kind: path_loss, at: 0us, until: 50us, ev: 0, source: "h[1-10]"}}
  - {{kind: flap, link: h1@p0, at: 0us, down: 2us, up: 2us}}
  - {{kind: loss, link: "*", at: 0us, probability: 1%}}
  - {{kind: path_loss, at: {at}us, ev: 0, source: "h[11-20]"}}
"""


@pytest.mark.parametrize("at", [0, 20, 49])
def test_lossy_paths_that_do_not_fit_together_are_refused(at: int) -> None:
    with pytest.raises(
        FileError, match=r"line 8: faults\[3\]: cannot be combined with the faults before it: losses on"
    ):
        load_text(FILE.format(at=at))


@pytest.mark.parametrize("at", [50, 60])
def test_lossy_paths_one_after_the_other_fit(at: int) -> None:
    load_text(FILE.format(at=at))


@pytest.mark.parametrize(("until", "fits"), [(50, True), (100, False)])
def test_a_fault_that_comes_and_goes_keeps_its_room_while_it_is_off(until: int, fits: bool) -> None:
    text = FILE.replace("kind: path_loss, at: 0us, until: 50us", f"kind: lossy_path_spells, at: 0us, until: {until}us")
    text = text.replace("ev: 0,", "ev: 0, on: 1us, off: 3us,", 1)
    with known():
        if fits:
            load_text(text.format(at=53))
        else:
            with pytest.raises(FileError, match=r"line 8: faults\[3\]: cannot be combined with the faults before it"):
                load_text(text.format(at=53))


@pytest.mark.timeout(20)
def test_faults_that_come_and_go_without_an_end_are_checked_to_an_end() -> None:
    spells = '{{kind: lossy_path_spells, at: 0us, ev: 0, source: "h[1-10]", on: 1us, off: 1us}}'
    text = FILE.replace('{{kind: path_loss, at: 0us, until: 50us, ev: 0, source: "h[1-10]"}}', spells)
    with known(), pytest.raises(FileError, match=r"line 8: faults\[3\]: cannot be combined"):
        load_text(text.format(at=99))
