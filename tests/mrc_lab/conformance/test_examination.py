"""The kit against our own NIC, which keeps every rule, and against mutants of it, which break one each."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from mrc_lab.conformance import player
from mrc_lab.conformance.collection import load_scripts
from mrc_lab.conformance.examine import examine, in_memory
from mrc_lab.conformance.player import RuleVerdict
from mrc_lab.conformance.script import parse_script
from tests.mrc_lab.conformance import mutants
from tests.mrc_lab.conformance.mutants import MUTANTS, ROOT

RULES = {script.rule for script in load_scripts()}


def verdicts(*texts: str, seeds: tuple[int, ...] = ()) -> list[RuleVerdict]:
    scripts = [parse_script(f"rule R2.8\ntitle a test\n{text}", f"s{n}") for n, text in enumerate(texts)]
    with in_memory() as setting:
        return list(examine(setting, scripts, seeds or (1,)))[: len(scripts)]


@pytest.mark.parametrize("planes", [1, 2, 4])
def test_our_nic_keeps_every_rule(planes: int) -> None:
    scripts = load_scripts()
    with in_memory(planes) as setting:
        found = list(examine(setting, scripts, range(1, 6)))
    left_out = {script.name for script in scripts} - {verdict.name for verdict in found}
    assert left_out == {script.name for script in scripts if script.planes > planes}
    assert [verdict for verdict in found if not verdict.kept] == []


@pytest.mark.parametrize("seed", range(1, 6))
def test_scripts_are_independent_of_those_before(seed: int) -> None:
    scripts = load_scripts()
    random.Random(seed).shuffle(scripts)
    with in_memory(seed=seed) as setting:
        found = list(examine(setting, scripts, (seed,)))
    assert [verdict for verdict in found if not verdict.kept] == []


def test_an_examination_repeats_with_its_seed() -> None:
    def frames(seed: int) -> list[bytes]:
        with in_memory() as setting:
            found = list(examine(setting, load_scripts(), (seed,)))
        return [one.frame for verdict in found for one in verdict.frames]

    assert frames(5) == frames(5)
    assert frames(5) != frames(6)


def test_each_script_names_a_rule_of_the_protocol() -> None:
    listed = (ROOT / "docs" / "conformance.md").read_text("utf-8")
    assert len(RULES) >= 38
    for rule in RULES:
        assert f"| {rule} |" in listed


def test_each_rule_with_a_script_has_a_mutant() -> None:
    """Those left out are checked together with another: a NIC that breaks one of these breaks both."""
    assert RULES - {mutant.rule for mutant in MUTANTS} == {"R1.23", "R2.19"}


@pytest.mark.parametrize("number", range(len(MUTANTS)), ids=lambda n: f"{MUTANTS[n].rule}-{n}")
def test_a_mutant_breaks_its_rule_and_few_others(number: int) -> None:
    done = subprocess.run(
        (sys.executable, Path(mutants.__file__), str(number)), capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    broken = json.loads(done.stdout)
    assert MUTANTS[number].rule in broken
    assert len(broken) <= 8, broken


# ---- steps


def test_a_script_passes_when_the_nic_does_what_it_expects() -> None:
    (verdict,) = verdicts(
        "< data psn=0 a\n> sack cack=0 : mark=none as one\n< data psn=1 msn=1 a stamp=one.stamp\n> sack"
    )
    assert verdict.kept


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("< data psn=0 a\n> sack cack=7 within 2ms", "sack cack=7 within 2ms: none came within 2 ms; the last of"),
        ("< data psn=0 a\n> sack : cack=7", "line 4: > sack : cack=7: cack is 0 in: sack "),
        ("< data psn=0 a\nno sack cack=0 for 1ms", "line 4: no sack cack=0 for 1ms: one came: sack "),
        ("post write size=1000\nno data psn=0 for 1ms", "one came: data "),
        ("< data psn=0 a\n> sack\nmemory offset=0 size=1001 fill=0x55", "byte 1000 is 0x00"),
        ("< data psn=0 a imm=1\ncomplete received=1 imm=2 within 2ms", "none came within 2 ms; others: Finished("),
        ("< data psn=0 a imm=1\nno complete received=1 for 2ms", "one came"),
        ("post write size=1000\nspread data count=2 within 1ms", "only 1 came within 1 ms"),
        ("qp path_mtu=1024 active_paths=1\npost write size=4096\nspread data count=4 evs=4", "entropy values"),
        ("> sack nonsense=1", "none came within 1 s, nor any other sack"),
        ("< data psn=0 a\n> sack nonsense=1", "a sack has no field nonsense"),
        ("< sack cack=0 of=first", "no packet is called first"),
        ("< data psn=0 plane=2", "there is no plane 2: the NIC has 2 ports"),
        ("< data psn=0 path=4", "plane 0 has 4 paths, counted from 0"),
        ("< data psn=0 as one\n< sack cack=5 shows=one", "PSN 0 is not in the bitmap"),
        ("< data psn=0 a as one\n> sack cack=one.nothing", "a data has no field nothing"),
        ("qp bogus=3\n< data psn=0", "A queue pair has no attribute bogus."),
        ("qp timeout=99\n< data psn=0", "timeout must be between 1 and 24"),
    ],
)  # fmt: skip
def test_a_failing_step_is_named_with_what_happened_instead(text: str, reason: str) -> None:
    (verdict,) = verdicts(text)
    assert not verdict.kept
    assert reason in verdict.reason


def test_a_script_after_a_failed_one_has_a_connection_of_its_own() -> None:
    first, second = verdicts("qp timeout=99\n< data psn=0", "< data psn=0 a\n> sack cack=0")
    assert (first.kept, second.kept) == (False, True)


def test_frames_of_a_nic_that_floods_are_not_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "KEPT_BYTES", 10_000)
    (verdict,) = verdicts("qp path_mtu=1024\npost write size=60000\n> data psn=0\n> data psn=40")
    assert verdict.kept, verdict.reason
    assert 5_000 < sum(len(one.frame) for one in verdict.frames) <= 10_000


def test_a_path_counts_as_taken_only_if_a_packet_takes_it_in_time() -> None:
    head = "qp path_mtu=1024 congestion_window=2048\npost write size=65536\n> data psn=0 as first\n< sack cack=0"
    kept, too_soon, bad = verdicts(
        f"{head}\ntaken of=first count=60",
        f"{head}\ntaken of=first count=1",
        f"{head} mark=always_skip of=first\ntaken of=first count=60",
    )
    assert kept.kept
    assert too_soon.reason.endswith("none took the path")
    assert bad.reason.endswith("none took the path")
