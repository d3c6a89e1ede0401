"""The compiled programs of the tests are those of their sources."""

import shutil
from pathlib import Path

import pytest

from scripts.compile_p4 import compile_p4

TESTS = Path(__file__).parents[2]


@pytest.mark.p4c
@pytest.mark.parametrize("source", ["p4runtime_shim/server/programs/families.p4", "integration/programs/patch.p4"])
def test_compiled_samples_are_up_to_date(source: str, tmp_path: Path) -> None:
    if shutil.which("p4c-bm2-ss") is None:
        pytest.skip("p4c is not installed")
    path = TESTS / source
    compile_p4(path, tmp_path)
    for suffix in (".json", ".p4info.txtpb"):
        assert (tmp_path / path.name).with_suffix(suffix).read_text() == path.with_suffix(suffix).read_text()
