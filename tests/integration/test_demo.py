"""The demo for real: Mininet, switches, controller, agents, workers."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.names import own
from tests.waiting import until
from topologies import addressing
from topologies.emulation.run_directory import DEFAULT_ROOT

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

NAME = own("demo")
SHORT = ["--name", NAME, "--steps", "40", "--fault-seconds", "2", "--rate", "25M"]
SMALL = [*SHORT, "--hosts", "2"]  # where it is the process that is tested, not the traffic


started = []


def mrc(*arguments, **options):
    command = [sys.executable, "-c", "from mrc_lab.cli import main; main()", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, **options
    )
    started.append(process)
    return process


def finish(process, timeout=150):
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=30)
        pytest.fail(f"did not end in time:\n{output}")
    return process.returncode, output


def assert_nothing_left():
    assert not (DEFAULT_ROOT / NAME).exists()
    prefix = f"{addressing.tag(NAME)}-t"
    assert not [name for name in os.listdir("/sys/class/net") if name.startswith(prefix)]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            assert f"/run/mrc/{NAME}/" not in entry.read_text().replace("\0", " "), entry


def end_what_still_runs():
    """What a test that has failed did not wait for, lest the next one finds its fabric up."""
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=40)
    started.clear()


@pytest.fixture(autouse=True)
def _nothing_left():
    yield
    end_what_still_runs()
    assert_nothing_left()


def test_the_demo_survives_its_faults(tmp_path):
    status, output = finish(mrc("demo", *SHORT, "--results", str(tmp_path)))
    print(output)
    latest = tmp_path / "demo" / "latest"
    summary = json.loads((latest / "summary.json").read_text())
    assert status == 0, summary["checks"]
    assert summary["wrong_bytes"] == 0
    assert summary["verified_bytes"] > 2 * 40 * 4 * 900_000
    assert summary["weights_max_abs_diff"] < 1e-6
    mrc_run, roce = summary["mrc"], summary["roce"]
    assert mrc_run["steps"] == roce["steps"] == 40
    assert roce["longest_stall_s"] >= 2.0, "RoCE waits until the link is back"
    assert mrc_run["longest_stall_s"] < roce["longest_stall_s"]
    assert [f["link"] for f in mrc_run["faults"]] == [f["link"] for f in roce["faults"]]
    assert mrc_run["packets_retransmitted"] > 0
    assert 0 < mrc_run["failover_time_s"] < 2.0, "while the link was still down"
    assert mrc_run["recovery_time_s"] >= 0
    assert roce["failover_time_s"] is None
    assert roce["recovery_time_s"] is None
    assert 0 < mrc_run["faults"][1]["port_down"]["largest"] < 2.0, "while the link was still down"
    assert (latest / "step_time.png").read_bytes().startswith(b"\x89PNG")
    for name in ("steps-mrc.csv", "steps-roce.csv", "events-mrc.jsonl", "events-roce.jsonl"):
        assert (latest / name).stat().st_size > 0


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_demo_leaves_only_its_results(tmp_path, number, expected):
    process = mrc("demo", *SMALL, "--results", str(tmp_path))
    seen = ""
    while " down after step" not in seen:
        line = process.stdout.readline()
        assert line, f"ended early:\n{seen}"
        seen += line
    process.send_signal(number)
    status, rest = finish(process, timeout=40)
    assert status == expected, seen + rest
    summary = json.loads((tmp_path / "demo" / "latest" / "summary.json").read_text())
    assert summary["interrupted"] is True
    assert summary["roce"]["steps"] >= 12
    assert "Traceback" not in rest


def test_an_interrupted_bring_up_leaves_nothing(tmp_path):
    process = mrc("demo", *SMALL, "--results", str(tmp_path))
    until((DEFAULT_ROOT / NAME / "fabric.yaml").exists, "the bring-up to begin")
    process.send_signal(signal.SIGINT)
    status, output = finish(process, timeout=40)
    assert status == 130, output
    assert "Traceback" not in output
    assert not list((tmp_path / "demo").glob("*"))
