"""Both ends of write_bw from one command line, where an agent does not answer."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.fabric import client_and_server


@pytest.mark.parametrize(("usual", "environment", "said"), [(0.2, "", "0.2 s"), (600.0, "1", "1 s")])
def test_a_server_with_a_stopped_agent_times_out_and_its_host_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usual: float, environment: str, said: str
) -> None:
    monkeypatch.setattr(client_and_server, "_SERVER_START_S", usual)
    monkeypatch.setenv("MRC_READY_SECONDS", environment)
    run: Any = SimpleNamespace(path=tmp_path, host_socket=lambda host: tmp_path / f"{host}.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stopped:
        stopped.bind(str(tmp_path / "h2.sock"))
        stopped.listen()
        with pytest.raises(ExperimentError, match=f"within {said}: the agent of h2 may be stopped or overloaded"):
            client_and_server.run_pair(
                "write_bw", run, "h1", "h2", [], lambda command: pytest.fail(f"started {command}"), print
            )
