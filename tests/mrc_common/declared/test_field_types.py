"""Single values: read from documents and words, and checked as programs give them."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from mrc_common import units
from mrc_common.declared.field_types import Boolean, EnumMember, FileBeside, Integer, Quantity, Scalar, Text, a_time
from tests.mrc_common.declared.parsed import DocumentError, parse


class Colour(Enum):
    RED = "red"
    GREEN = "green"


SHARE = Quantity(units.SHARE, 0, 1, above=True)
HEX = Integer(0, 255, "0x10")


@pytest.mark.parametrize(
    ("kind", "word", "expected"),
    [
        (Integer(1, 8), "8", 8),
        (HEX, "0x1f", 31),
        (Boolean(), "yes", True),
        (Text(("a", "b")), " b ", "b"),
        (a_time(), "1.5us", 1_500),
        (SHARE, "20%", 0.2),
        (EnumMember(Colour), "green", Colour.GREEN),
    ],
)
def test_a_word_means_the_same_on_a_command_line_and_in_a_document(kind: Scalar, word: str, expected: object) -> None:
    assert kind.parse(word) == expected
    assert kind.read(parse(f"k: '{word}'" if isinstance(kind, Text) else f"k: {word}").items()["k"]) == expected
    assert kind.check(expected) == expected


@pytest.mark.parametrize(
    ("kind", "word", "problem"),
    [
        (Integer(1, 8), "9", "is 9, but must be 1 to 8"),
        (Integer(1), "0", "is 0, but must be at least 1"),
        (Integer(1), "1.5", "must be a whole number, not '1.5'"),
        (Integer(0, 9), "٣", "must be a whole number, not '٣'"),
        (Boolean(), "perhaps", "must be yes or no, not 'perhaps'"),
        (Text(("north", "south")), "nort", "'nort' is unknown; did you mean north?"),
        (EnumMember(Colour), "blue", "'blue' is unknown; known are red, green"),
        (a_time(0, 1_000), "2us", "is 2us, but must be 0 ns to 1 us"),
        (a_time(), "5", "'5' has no unit"),
        (SHARE, "0%", "is 0%, but must be above 0 % and at most 100 %"),
        (SHARE, "5", "at most 100 %: write 5% for 5 in a hundred"),
    ],
)
def test_a_wrong_word_is_refused_alike_in_both(kind: Scalar, word: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        kind.parse(word)
    with pytest.raises(DocumentError, match=f"^file, line 1: k: .*{problem}"):
        kind.read(parse(f"k: {word}").items()["k"])


@pytest.mark.parametrize(
    ("kind", "given", "problem"),
    [
        (HEX, 256, "is 0x100, but must be 0x0 to 0xff"),
        (HEX, True, "must be a whole number such as 0x10, not 'True'"),
        (SHARE, float("nan"), "is nan %, but must be above 0 %"),
        (a_time(), 1.5, "must be a time, not '1.5'"),
        (Boolean(), 1, "must be yes or no, not '1'"),
        (Text(), 5, "must be text, not '5'"),
        (EnumMember(Colour), "red", "'red' is unknown"),
    ],
)
def test_values_of_programs_are_checked(kind: Scalar, given: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        kind.check(given)


def test_a_number_that_nobody_can_print_is_refused_by_its_size() -> None:
    with pytest.raises(ValueError, match="is a number of 16610 bits, but must be 0 to 9"):
        Integer(0, 9).check(10**5000)


def test_a_file_is_looked_for_beside_the_document() -> None:
    assert FileBeside().read(parse("k: b.txt", "folder/a.yaml").items()["k"]) == Path("folder/b.txt")
