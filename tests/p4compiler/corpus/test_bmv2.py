"""BMv2 loads what this compiler makes of p4c's corpus: it is stricter in places than the embedded switch."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.integration.bmv2 import THRIFT_PORT, needs_bmv2
from tests.integration.veth_switch import namespace
from tests.p4compiler.corpus.test_corpus import compiled, needs_corpus, programs
from tests.waiting import until

pytestmark = [*needs_corpus, *needs_bmv2]


def test_bmv2_loads_each_program(tmp_path: Path) -> None:
    refused, count = {}, 0
    with namespace(f"mrcc{os.getpid()}", []) as place:
        for path in programs():
            if (made := compiled(path)) is not None:
                count += 1
                file = tmp_path / f"{path.stem}.json"
                file.write_text(made.json)
                if problem := _problem(file, place):
                    refused[path.stem] = problem
    assert refused == {}
    assert count >= 400


def _problem(program: Path, place: str) -> str:
    """What BMv2 says against a program; "" if it listens, which it does when it has read it."""
    socket = program.with_suffix(".sock")
    command = ["ip", "netns", "exec", place, "simple_switch_grpc", str(program), "--thrift-port", str(THRIFT_PORT)]
    command += ["--", "--grpc-server-addr", f"unix:{socket}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        until(lambda: socket.exists() or process.poll() is not None, "BMv2 to listen", 60)
        ended = process.poll() is not None
        process.kill()
        output = process.stdout.read()
    return output if ended else ""
