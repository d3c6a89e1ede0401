"""The committed JSON of the test programs is what p4c makes of their sources."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.p4runtime_shim import programs


def _plain(data: Any) -> Any:
    """Without what depends on the place of the source or the version of the compiler."""
    if isinstance(data, dict):
        return {k: _plain(v) for k, v in data.items() if k not in ("program", "__meta__", "source_info")}
    return [_plain(item) for item in data] if isinstance(data, list) else data


@pytest.mark.p4c
@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="p4c-bm2-ss is not installed")
@pytest.mark.parametrize("name", programs.NAMES)
def test_json_is_up_to_date(name: str, tmp_path: Path) -> None:
    made = tmp_path / "made.json"
    source = programs.FOLDER / f"{name}.p4"
    subprocess.run(["p4c-bm2-ss", "--p4v", "16", "-o", str(made), str(source)], check=True, capture_output=True)
    assert _plain(json.loads(made.read_text())) == _plain(json.loads(programs.text(name)))
