"""Mutants of our NIC name a place in its code: a change there changes them, too."""

from __future__ import annotations

import pytest

from tests.mrc_lab.conformance.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.rule)
def test_a_mutant_has_its_place_in_the_code(mutant: Mutant) -> None:
    assert mutant.text()
