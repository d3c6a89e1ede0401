"""The engine's fuzzer, some cases of it; and that the sanitizer sees the limits of packets in the pool."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from p4runtime_shim.build import ENGINE_SOURCES
from tests.fuzz import fuzz_engine, harness

ASAN = fuzz_engine.runtime("libasan.so")
pytestmark = pytest.mark.skipif(ASAN is None, reason="the compiler has no address sanitizer")

GROWS = """
import sys
from pathlib import Path
from p4runtime_shim import build
build.ENGINE_SOURCES = Path(sys.argv[2])
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.switch import EmbeddedSwitch
from p4runtime_shim.entities import CloneSession, Replica
from p4runtime_shim.traffic_manager import QueueConfig
from tests.fuzz.engine_child import OPTIONS
from tests.p4runtime_shim.builder import Builder
from tests.p4runtime_shim.test_limits import grows
builder = Builder()
builder.data["field_lists"] = [{"id": 1, "name": "kept", "elements": []}]
grows(builder, times=50)
pipeline = Pipeline.load(builder.text(), cache=Path(sys.argv[1]), options=OPTIONS)
queues = QueueConfig(max_frame=2048, buffer_packets=8)
with EmbeddedSwitch(pipeline, ports=(1, 2), seed=1, queues=queues) as switch:
    switch.control_plane.replication.session_set(5, CloneSession((Replica(2, 1),)))
    for now in range(20):
        switch.receive(1, bytes(2000), now)
        for _ in range(200):
            switch.transmit(1, now)
            switch.transmit(2, now)
print("clean")
"""


def run(folder: Path, sources: Path) -> subprocess.CompletedProcess[str]:
    assert ASAN
    return subprocess.run(
        [sys.executable, "-c", GROWS, str(folder / "cache"), str(sources)],
        capture_output=True,
        text=True,
        check=False,
        cwd=fuzz_engine.ROOT,
        env=os.environ | {"LD_PRELOAD": ASAN, "ASAN_OPTIONS": "detect_leaks=0"},
    )


def test_some_fuzzer_cases_run_clean() -> None:
    assert harness.run("engine", fuzz_engine.Fuzzer, 11, most=12).crashes == 0


def test_growing_packets_run_clean(tmp_path: Path) -> None:
    done = run(tmp_path, ENGINE_SOURCES)
    assert (done.returncode, done.stdout) == (0, "clean\n"), done.stderr[-3000:]


def test_the_sanitizer_reports_a_copy_beyond_its_buffer(tmp_path: Path) -> None:
    sources = tmp_path / "engine"
    shutil.copytree(ENGINE_SOURCES, sources)
    for file, check in (
        ("pipeline/packet_path.c", "p->len > sw->pool.max_frame"),
        ("pipeline/packet_path.c", "bytes > sw->pool.room - sw->pool.headroom"),
    ):
        text = (sources / file).read_text()
        assert text.count(check) == 1
        (sources / file).write_text(text.replace(check, "0"))
    done = run(tmp_path, sources)
    assert done.returncode != 0
    assert "AddressSanitizer: use-after-poison" in done.stderr
    assert "sw_packet_copy" in done.stderr
