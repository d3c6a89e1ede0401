"""The committed JSON and P4Info of the test programs are what p4c makes of their sources."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

from tests.p4runtime_shim import programs


def _plain(data: Any) -> Any:
    """Without what depends on the place of the source or the version of the compiler."""
    if isinstance(data, dict):
        return {k: _plain(v) for k, v in data.items() if k not in ("program", "__meta__", "source_info")}
    return [_plain(item) for item in data] if isinstance(data, list) else data


@pytest.mark.p4c
@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="p4c-bm2-ss is not installed")
@pytest.mark.parametrize("name", programs.NAMES)
def test_compiled_programs_are_up_to_date(name: str, tmp_path: Path) -> None:
    made, info = tmp_path / "made.json", tmp_path / "made.p4info.txtpb"
    source = programs.FOLDER / f"{name}.p4"
    command = ["p4c-bm2-ss", "--p4v", "16", "-o", str(made), "--p4runtime-files", str(info), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    assert _plain(json.loads(made.read_text())) == _plain(json.loads(programs.text(name)))
    assert _p4info(info) == _p4info(programs.FOLDER / f"{name}.p4info.txtpb")


def _p4info(path: Path) -> p4i.P4Info:
    return text_format.Parse(path.read_text(), p4i.P4Info())
