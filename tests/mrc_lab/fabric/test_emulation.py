"""What a fabric's processes cost, read while one of them exits."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

from mrc_lab.fabric.emulation import EmulatedWorld

WORKS = "import os, time\ninput()\nwhile time.process_time() < 0.2: pass\nos.kill(os.getpid(), 9)"


def test_cpu_time_of_a_crashed_process_counts_without_reaping_it() -> None:
    with subprocess.Popen([sys.executable, "-c", WORKS], stdin=subprocess.PIPE, text=True) as process:
        world = EmulatedWorld(SimpleNamespace(children={"h1": SimpleNamespace(process=process)}))  # type: ignore[arg-type]
        before = world.cpu_seconds()
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        after = world.cpu_seconds()
        assert after - before > 0.1
        left = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        assert left is not None
        assert left.si_status == 9
    assert world.cpu_seconds() >= after, "it stays counted when it has been collected"
