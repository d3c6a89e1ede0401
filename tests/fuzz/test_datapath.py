"""The fuzzer of the NIC's datapath in C, some cases of it."""

import pytest

from tests.fuzz import fuzz_datapath, fuzz_engine, harness


@pytest.mark.skipif(fuzz_engine.runtime("libasan.so") is None, reason="the compiler has no address sanitizer")
def test_a_few_hostile_cases_are_clean_under_the_sanitizers() -> None:
    assert harness.run("datapath", fuzz_datapath.Fuzzer, 11, most=12).crashes == 0
