"""Both ends of write_bw from one command line, where an agent does not answer."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.perf import client_and_server


def test_a_server_with_a_stopped_agent_times_out_and_its_host_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_and_server, "_SERVER_START_S", 0.2)
    run: Any = SimpleNamespace(path=tmp_path, host_socket=lambda host: tmp_path / f"{host}.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stopped:
        stopped.bind(str(tmp_path / "h2.sock"))
        stopped.listen()
        with pytest.raises(ExperimentError, match="the agent of h2 may be stopped or overloaded"):
            client_and_server.run_pair(
                "write_bw", run, "h1", "h2", [], lambda command: pytest.fail(f"started {command}"), print
            )
