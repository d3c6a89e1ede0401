"""The table of docs/conformance.md: every rule of docs/protocol.md once, and tests that exist."""

import re

import pytest

from tests.docs.blocks import DOCS, ROOT

_RULE = re.compile(r"\*\*(R[1-4]\.\d+)\*\*")
RULES = _RULE.findall((DOCS / "protocol.md").read_text())
TABLE = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (DOCS / "conformance.md").read_text().splitlines()
    if line.startswith("| R")
]


def test_rule_numbers_in_the_protocol_are_unique_and_consecutive() -> None:
    assert len(RULES) > 50
    assert len(RULES) == len(set(RULES))
    for section in "1234":
        numbers = sorted(int(rule[3:]) for rule in RULES if rule[1] == section)
        assert numbers == list(range(1, len(numbers) + 1)), f"section {section} has gaps"


def test_the_table_lists_exactly_the_rules_of_the_protocol() -> None:
    assert sorted(row[0] for row in TABLE) == sorted(RULES)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])
def test_tests_named_for_a_rule_exist(row: list[str]) -> None:
    _rule, what, tests, state = row
    assert what
    assert state
    named = re.findall("`([^`]+)`", tests)
    assert named
    for test in named:
        file, _, name = test.partition("::")
        path = ROOT / file if file.startswith("tests/") else ROOT / "tests" / "mrc_host" / file
        assert path.is_file(), test
        assert not name or re.search(rf"^(async )?def {name}\(", path.read_text(), re.MULTILINE), test
