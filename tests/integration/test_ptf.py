"""PTF, unchanged, tests the switch process: its runner, its data plane, its assertions (ptf_tests/)."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.test_switch_process import CPU_PORT, arguments
from tests.integration.veth_switch import running, wires

PTF = shutil.which("ptf", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
PROGRAM = Path(__file__).parents[1] / "p4runtime_shim" / "programs" / "packet_io.json"

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        PTF is None or importlib.util.find_spec("ptf") is None, reason="needs PTF: .venv/bin/pip install ptf"
    ),
]


def test_ptf_runs_its_tests_against_the_switch(tmp_path: Path) -> None:
    assert PTF is not None
    with wires(2) as cables, running(*arguments(cables, "--no-p4", "--cpu-port", str(CPU_PORT))) as process:
        values = {
            "grpcaddr": process.address,
            "p4info": PROGRAM.with_suffix(".p4info.txtpb"),
            "config": PROGRAM,
            "device_id": 1,
        }
        command = [sys.executable, PTF, "--test-dir", str(Path(__file__).parent / "ptf_tests")]
        command += [f"--interface={number}@{wire.outside}" for number, wire in enumerate(cables, 1)]
        command += ["--test-params", ";".join(f"{name}={str(value)!r}" for name, value in values.items())]
        command += ["--log-file", str(tmp_path / "ptf.log"), "--disable-vxlan", "--disable-geneve"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "Ran 3 tests" in output
