"""The key `timing` of experiment files: a profile, single values, variants and sweeps laid over it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrc_common.declared.assignment import assign, parse_assignment
from mrc_lab.errors import FileError
from mrc_lab.experiments.files.document import parse
from mrc_lab.experiments.files.loader import load_document, load_text
from simulation.hardware_timing import IDEAL, PUBLISHED_TESTBED, HardwareTiming

FILE = """
fabric: {hosts: 4, t0: 2, t1: 2}
workload: {kind: write_bw, pairs: h1>h3, message: 64K}
duration: 1ms
"""


def timing_of(text: str, case: int = 0) -> HardwareTiming:
    return load_text(FILE + text).cases[case].timing


def test_all_delays_default_to_zero() -> None:
    assert timing_of("") == timing_of("timing: ideal\n") == IDEAL


def test_a_profile_is_named_alone_or_with_overrides() -> None:
    assert timing_of("timing: published_testbed\n") == PUBLISHED_TESTBED
    assert timing_of("timing: {profile: published_testbed}\n") == PUBLISHED_TESTBED
    changed = replace(PUBLISHED_TESTBED, step=0, copy_rate=10**12)
    assert timing_of("timing: {profile: published_testbed, step: 0us, copy_rate: 1T}\n") == changed
    assert timing_of("timing: {switch: 600ns}\n") == replace(IDEAL, switch=600)


def test_values_of_a_variant_override_the_profile_of_the_file() -> None:
    text = """timing: published_testbed
variants:
  - {name: as-the-file}
  - {name: own, timing: {step: 5us}}
  - {name: other, timing: ideal}
"""
    changed = replace(PUBLISHED_TESTBED, step=5_000)
    assert [timing_of(text, case) for case in range(3)] == [PUBLISHED_TESTBED, changed, IDEAL]


def test_a_sweep_changes_single_values_and_profiles() -> None:
    def swept(text: str, case: int = 0) -> HardwareTiming:
        chosen = parse_assignment(text, FileError)
        variants = "variants: [{name: one}, {name: two, timing: {step: 5us}}]\n"
        document = parse(FILE + "timing: published_testbed\n" + variants, "x.yaml")
        return load_document(assign(document, chosen.key, chosen.values[0]), "", "x").cases[case].timing

    assert swept("timing.switch=1us") == replace(PUBLISHED_TESTBED, switch=1_000)
    assert swept("timing=ideal") == IDEAL
    assert swept("timing=ideal", 1) == replace(IDEAL, step=5_000)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("timing: published\n", "timing.profile: 'published' is unknown; did you mean published_testbed?"),
        ("timing: {swich: 1us}\n", "timing.swich: unknown key; did you mean switch?"),
        ("timing: {switch: 3}\n", "timing.switch"),
        ("timing: {pcie_rate: fast}\n", "timing.pcie_rate"),
        ("timing: [ideal]\n", "timing: must be a mapping"),
    ],
)
def test_mistakes_are_named_with_their_line(text: str, problem: str) -> None:
    with pytest.raises(FileError, match="line 5") as error:
        load_text(FILE + text)
    assert problem in str(error.value)


def test_emulation_warns_that_it_ignores_timing() -> None:
    experiment = load_text(FILE + "timing: published_testbed\n")
    (note,) = experiment.notes_on("emulation")
    assert "timing is ignored in emulation" in note
    assert experiment.notes_on("sim") == experiment.notes == ()
    assert load_text(FILE).notes_on("emulation") == ()
