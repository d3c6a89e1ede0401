"""The agent's trace: written as JSON lines, switched at run time, and never in the NIC's way."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from mrc_host.agent.trace_file import FLUSH_NS, TraceError, TraceFile
from mrc_host.errors import MrcError
from mrc_host.verbs.remote.connection import AgentConnection
from tests.mrc_host.agent.conftest import Agents


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_records_are_written_when_due_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    file = TraceFile(path)
    assert file.turn(5) is None
    file({"t": 1, "event": "send"})
    assert file.turn(10) == 10 + FLUSH_NS
    assert file.turn(11) == 10 + FLUSH_NS
    assert lines(path) == []
    assert file.turn(10 + FLUSH_NS) is None
    assert lines(path) == [{"t": 1, "event": "send"}]
    file({"t": 2, "event": "send"})
    file.close()
    file.close()
    assert len(lines(path)) == 2


def test_large_amounts_are_written_early(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "trace")
    for i in range(10_000):
        file({"t": i, "event": "send"})
    assert len(lines(tmp_path / "trace")) > 5_000
    file.close()


def test_a_file_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        TraceFile(tmp_path / "none" / "trace")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "trace").symlink_to(tmp_path / "other")
    TraceFile(tmp_path / "trace").close()
    assert (tmp_path / "other").read_text() == "theirs"


def test_a_full_disk_ends_the_trace_without_an_error(caplog: pytest.LogCaptureFixture) -> None:
    file = TraceFile("/dev/full")
    file({"t": 1, "event": "send"})
    file.flush()
    file({"t": 2, "event": "send"})
    file.close()
    assert "/dev/full ends here: No space left" in caplog.text


def test_a_full_disk_ends_the_nics_trace_too(agents: Agents) -> None:
    nic = agents.nics[0]
    client = AgentConnection(agents.paths[0])
    with open("/dev/full", "w") as file:
        client.request("trace", fd=file.fileno(), path="/dev/full")
    agents.call(lambda: [nic.trace({"t": 1, "event": "send"}) for _ in range(5_000)])  # type: ignore[misc]
    agents.turn()
    assert nic.trace is None
    assert client.request("trace") == ""
    client.close()


def test_files_that_may_block_are_refused(agents: Agents, tmp_path: Path) -> None:
    """A reader who pauses would stop the NIC."""
    client = AgentConnection(agents.paths[0])
    read, write = os.pipe()
    with pytest.raises(MrcError, match="it is not a regular file"):
        client.request("trace", fd=write, path="pipe")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(TraceError):
        TraceFile(tmp_path / "fifo")
    assert client.request("trace") == ""
    os.close(read)
    os.close(write)
    client.close()


def test_tracing_is_switched_at_run_time(agents: Agents, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    nic, server = agents.nics[0], agents.servers[0]
    client = AgentConnection(agents.paths[0])
    assert client.request("trace") == ""
    with path.open("w") as file:
        assert client.request("trace", fd=file.fileno(), path=str(path)) == str(path)
    agents.call(lambda: nic.trace({"t": 1, "event": "send"}))  # type: ignore[misc]
    with pytest.raises(MrcError, match="needs the descriptor of its file"):
        client.request("trace", path=str(tmp_path / "other"))
    assert not (tmp_path / "other").exists(), "a client's word became a path"
    assert client.request("trace") == str(path), "a refusal changes nothing"
    with pytest.raises(MrcError):
        client.request("trace", path=7)
    assert client.request("trace", path="") == ""
    assert nic.trace is None
    clock, *events = lines(path)
    assert (clock["event"], clock["host"]) == ("clock", nic.config.name)
    assert abs(clock["realtime"] - time.time_ns()) < 3600 * 10**9
    assert events == [{"t": 1, "event": "send"}]
    with path.open("w") as file:
        client.request("trace", fd=file.fileno(), path=str(path))
    agents.call(lambda: nic.trace({"t": 2, "event": "send"}))  # type: ignore[misc]
    agents.call(server.close)
    assert lines(path)[1:] == [{"t": 2, "event": "send"}], "the agent's end writes the rest"
    client.close()
