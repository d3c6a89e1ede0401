"""Numbers at the edges of what a step may have: refused with the line, before anything is sent or kept for them."""

from __future__ import annotations

import random

import pytest

from mrc_lab.conformance.collection import load_scripts
from mrc_lab.conformance.script import parse_script
from mrc_lab.errors import ExperimentError
from tests.fuzz import fuzz_scripts
from tests.seeds import SEED

HEAD = "rule R2.8\ntitle x\n"


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("< data psn=0 length=100000000000", "length of '< data' is from 0 to 4294967295, not 100000000000"),
        ("< data psn=0 length=4000000000", "a packet has at most 9000 bytes: give its size, beside length=4000000000"),
        ("< data psn=0 size=1099511627776", "size of '< data' is from 0 to 9000, not 1099511627776"),
        ("< data psn=0 size=-1", "size of '< data' is from 0 to 9000, not -1"),
        ("< data psn=0 plane=-1", "plane of '< data' is from 0 to 31, not -1"),
        ("< data psn=0 path=-1", "path of '< data' is from 0 to 65535, not -1"),
        ("< data psn=0 trimmed=3", "trimmed of '< data' is from 0 to 2, not 3"),
        ("< data psn=0 fill=256", "fill of '< data' is from 0 to 255, not 256"),
        ("memory offset=0 size=99999999999999", "size of 'memory' is from 0 to 1048576"),
        ("memory offset=-5 size=5", "offset of 'memory' is from 0 to 1048576, not -5"),
        ("memory offset=1048576 size=1", "the memory has 1048576 bytes"),
        ("post write size=999999999999", "size of 'post write' is from 0 to 1048576"),
        ("spread data count=999999999", "count of 'spread data' is from 1 to 100000"),
        ("spread data count=0", "count of 'spread data' is from 1 to 100000"),
        ("< sack cack=0 bitmap=0..18446744073709551616", "bitmap of '< sack' is from 0 to"),
        ("wait 61min", "a step takes from 0 to 1 hour"),
    ],
)
def test_a_number_out_of_range_is_refused_with_its_line(step: str, problem: str) -> None:
    with pytest.raises(ExperimentError) as error:
        parse_script(f"{HEAD}{step}\n", "mine")
    assert str(error.value).startswith(f"mine, line 3: {problem}")


def test_a_number_of_a_packet_is_checked_when_it_is_known() -> None:
    reason = fuzz_scripts.attack(f"{HEAD}< data psn=5 as d\n< data psn=0 size=d.psn-6\n")
    assert reason.endswith("size of '< data' is from 0 to 9000, not -1")
    reason = fuzz_scripts.attack(f"{HEAD}< data psn=5 as d\n< data psn=0 plane=d.psn-6\n")
    assert reason.endswith("plane of '< data' is from 0 to 31, not -1")


def test_the_kits_own_scripts_are_within_the_ranges() -> None:
    assert len(load_scripts()) > 40


@pytest.mark.parametrize("place", range(fuzz_scripts.places(fuzz_scripts.EVERY)))
def test_every_number_at_every_edge_ends_in_a_sentence(place: int) -> None:
    for edge in fuzz_scripts.EDGES[place % 4 :: 4]:  # the others are for `make soak`
        fuzz_scripts.attack(fuzz_scripts.changed(fuzz_scripts.EVERY, place, edge))


def test_random_scripts_end_in_a_sentence() -> None:
    print("seed", SEED)
    fuzzer, chance = fuzz_scripts.Fuzzer(), random.Random(SEED)
    for _ in range(40):
        fuzzer.case(chance)
