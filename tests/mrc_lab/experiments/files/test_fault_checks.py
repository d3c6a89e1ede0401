"""Faults that each are possible, and together more than a table of a switch holds."""

from __future__ import annotations

import pytest

from mrc_lab.experiments.files import FileError, load_text

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
