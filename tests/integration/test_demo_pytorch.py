"""The demo's PyTorch job for real: it trains through two cuts, and ends in one sentence when a rank is killed."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.names import own
from tests.integration.processes import processes
from topologies.emulation import cleanup
from topologies.emulation.run_directory import DEFAULT_ROOT

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install '.[torch]'"
    ),
]

NAME = own("demotorch")
MRC = Path(sys.executable).with_name("mrc")


def demo(results: Path, steps: int = 40) -> subprocess.Popen[str]:
    options = ["--name", NAME, "--hosts", "2", "--steps", str(steps), "--fault-seconds", "2", "--results", str(results)]
    return subprocess.Popen(
        [MRC, "demo", "--job", "torch", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.timeout(400)
def test_the_job_survives_both_cuts_over_both_transports_with_gloos_weights(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        printed, _ = process.communicate()
    assert process.returncode == 0, printed
    summary = json.loads((tmp_path / "demo" / "latest" / "summary.json").read_text())
    assert summary["passed"], printed
    for transport in ("roce", "mrc"):
        assert summary[transport]["steps"] == 40
        assert summary[transport]["weights_max_abs_diff_to_gloo"] == 0, "two ranks' gradients add up in either order"
        assert [fault["kind"] for fault in summary[transport]["faults"]] == ["t0-t1", "nic-t0"]
    assert summary["roce"]["faults"][0]["longest_stall_s"] >= 2, "its one path is cut for two seconds"
    assert len(re.findall(r"  roce .* down after step", printed)) == 2
    assert not (DEFAULT_ROOT / NAME).exists()


def ranks() -> list[int]:
    """Processes that train in this fabric's hosts."""
    return processes(b"/gpt.py", f"/{NAME}/".encode())


@pytest.mark.timeout(200)
def test_a_rank_that_is_killed_ends_the_demo_in_one_sentence(tmp_path: Path) -> None:
    try:
        with demo(tmp_path, steps=10_000) as process:  # more than end before the kill
            assert process.stdout is not None
            for line in process.stdout:
                if re.match(r"gloo step +[1-9]", line):  # step 0 is before the ranks have started
                    break
            os.kill(ranks()[-1], signal.SIGKILL)
            printed = process.stdout.read()
    finally:
        cleanup.clean(NAME, force=True)
    assert process.returncode == 3, printed
    assert re.search(r"the rank on h[12] was killed by SIGKILL: ", printed), printed
    assert "Traceback" not in printed
    assert not ranks()
