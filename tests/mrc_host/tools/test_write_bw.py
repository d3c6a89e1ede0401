"""write_bw and write_lat, both ends, over agents on fake NICs."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from mrc_common.argument_types import size as message_size
from mrc_common.unix_sockets import listening
from mrc_host.errors import InvalidArgumentError, MrcError
from mrc_host.tools import session, write_bw, write_lat
from mrc_host.tools.flags import plan
from mrc_host.tools.session import PeerConnection, Side, ToolError, TransferPlan, accept, connect, from_wire
from mrc_host.verbs.remote.codec import to_json
from mrc_host.verbs_types import QpAttributes, QpType
from tests.mrc_host.agent.conftest import Agents

Main = Callable[[list[str]], int]


def run(agents: Agents, main: Main, *flags: str, folder: Path) -> tuple[int, int]:
    """Exit statuses of the server and of the client started with `flags`."""
    meeting = f"unix:{folder}/meet"
    statuses: list[int] = []
    server = threading.Thread(target=lambda: statuses.append(main(["-d", str(agents.paths[1]), "-p", meeting])))
    server.start()
    while f"{folder}/meet" not in listening() and server.is_alive():
        server.join(0.01)
    client = main(["-d", str(agents.paths[0]), *flags, meeting])
    server.join(30)
    return statuses[0], client


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if re.match(r" \d+ ", line)]


def test_bandwidth_of_one_size_is_measured(agents: Agents, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("-s", "10000", "-n", "50", "-q", "3", "-t", "4")
    assert run(agents, write_bw.main, *flags, folder=tmp_path) == (0, 0)
    printed = capsys.readouterr().out
    assert "RDMA_Write BW Test" in printed
    assert "Device          : h1" in printed
    assert "BW average[MiB/sec]" in printed
    ((size, iterations, peak, average, rate),) = rows(printed)
    assert (size, iterations) == ("10000", "150")
    assert float(peak) >= float(average) > 0
    assert float(rate) * 1e6 * 10000 / (1 << 20) == pytest.approx(float(average), rel=0.05, abs=0.1)


def test_all_sizes_are_measured_in_gigabits(agents: Agents, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(agents, write_bw.main, "-a", "-n", "2", "--report_gbits", folder=tmp_path) == (0, 0)
    printed = capsys.readouterr().out
    assert "BW peak[Gb/sec]" in printed
    assert [int(row[0]) for row in rows(printed)] == [1 << i for i in range(1, 24)]


def test_a_run_of_fixed_duration(agents: Agents, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(agents, write_bw.main, "-D", "0.2", "-s", "64", folder=tmp_path) == (0, 0)
    ((_, iterations, *_rest),) = rows(capsys.readouterr().out)
    assert int(iterations) > 16


def test_wrong_bytes_are_detected(
    agents: Agents, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_bw.Side, "checksum", lambda *_: threading.get_ident())
    assert run(agents, write_bw.main, "-n", "2", folder=tmp_path)[1] == 1
    assert "bytes that arrived differ" in capsys.readouterr().err


def test_latency_is_measured(agents: Agents, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(agents, write_lat.main, "-n", "40", "-s", "8", folder=tmp_path) == (0, 0)
    printed = capsys.readouterr().out
    assert "t_typical[usec]" in printed
    ((size, iterations, *values),) = rows(printed)
    assert (size, iterations) == ("8", "40")
    low, high, typical, average, deviation, p99, p999 = map(float, values)
    assert 0 < low <= typical <= p99 <= p999 <= high
    assert low <= average <= high
    assert deviation >= 0


@pytest.mark.parametrize("size", ["3000", "1K", "2M"])
def test_both_directions_are_measured(
    agents: Agents, tmp_path: Path, capsys: pytest.CaptureFixture[str], size: str
) -> None:
    out = tmp_path / "out.json"
    flags = ("-b", "-s", size, "-n", "5", "-q", "2", "-t", "2", "-F", "-e", "--out_json_file", str(out))
    assert run(agents, write_bw.main, *flags, folder=tmp_path) == (0, 0)
    printed = capsys.readouterr().out
    assert "RDMA_Write Bidirectional BW Test" in printed
    nbytes = message_size(size)
    ((shown, iterations, peak, average, rate),) = rows(printed)
    assert (int(shown), iterations) == (nbytes, "10")
    assert float(peak) >= float(average) > 0
    (figures,) = json.loads(out.read_text())["results"]
    assert (figures["MsgSize"], figures["n_iterations"]) == (nbytes, 10)
    assert figures["BW_average"] == pytest.approx(float(average), abs=0.01)
    assert figures["MsgRate"] * 1e6 * nbytes / (1 << 20) == pytest.approx(figures["BW_average"])
    assert float(rate) == pytest.approx(figures["MsgRate"], abs=1e-6)


def test_both_directions_are_the_sum_and_each_is_compared(
    agents: Agents, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = write_bw.BandwidthResult(64, 5, 3.0, 2.0, 1.0)
    assert one.with_other(write_bw.BandwidthResult(64, 5, 30.0, 20.0, 10.0)) == write_bw.BandwidthResult(
        64, 5, 33.0, 22.0, 11.0
    )
    run_size, client = write_bw.run_size, threading.get_ident()

    def spoiled(side: write_bw.Side, size: int) -> write_bw.BandwidthResult:
        result = run_size(side, size)
        if threading.get_ident() != client:  # what the server says it wrote is not what the client has got
            side.mr.buffer[0] ^= 1
        return result

    monkeypatch.setattr(write_bw, "run_size", spoiled)
    assert run(agents, write_bw.main, "-b", "-s", "64", "-n", "5", folder=tmp_path) == (1, 1)
    assert capsys.readouterr().err.count("bytes that arrived differ") == 2


def test_peak_bandwidth_can_be_left_out(agents: Agents, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(agents, write_bw.main, "-N", "-n", "5", folder=tmp_path) == (0, 0)
    ((_, _, peak, average, _),) = rows(capsys.readouterr().out)
    assert float(peak) == 0 < float(average)


def test_latency_for_a_duration_and_of_each_message(
    agents: Agents, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    assert run(agents, write_lat.main, "-D", "0.2", "-s", "64", "--out_json_file", str(out), folder=tmp_path) == (0, 0)
    printed = capsys.readouterr().out
    assert "tps average" in printed
    ((size, iterations, average, rate),) = rows(printed)
    assert (size, int(iterations) > 1) == ("64", True)
    assert float(rate) == pytest.approx(1e6 / float(average), rel=0.01)
    (figures,) = json.loads(out.read_text())["results"]
    assert figures["t_min"] <= figures["t_avg"] <= figures["t_max"]
    for flag, ordered in (("-H", True), ("-U", False)):
        assert run(agents, write_lat.main, flag, "-n", "30", folder=tmp_path) == (0, 0)
        times = [float(text) for text in re.findall(r"^\d+, (.*)$", capsys.readouterr().out, re.MULTILINE)]
        assert len(times) == 30
        assert not ordered or times == sorted(times)


@pytest.mark.parametrize(
    ("tool", "words", "why"),
    [
        (write_bw, "-R", "there is no RDMA CM"),
        (write_bw, "-x 3", "a NIC has one address"),
        (write_bw, "--rdma_cm", "there is no RDMA CM"),
        (write_bw, "-i 2", "one per plane"),
        (write_bw, "-Q 100", "each has its completion"),
        (write_bw, "-I 64", "fetched from memory"),
        (write_bw, "--use_cuda=0", "no GPU"),
        (write_bw, "-A FETCH_AND_ADD", "WRITE and WRITE_WITH_IMM only"),
        (write_bw, "-H", "it is for latency"),
        (write_lat, "-b", "it is for bandwidth"),
        (write_lat, "-q 4", "it is for bandwidth"),
        (write_lat, "-C", "microseconds"),
        (write_bw, "-c UD", "invalid choice"),
        (write_bw, "-s 64X", "not a size"),
        (write_bw, "-n 0", "must be at least 1"),
        (write_bw, "-D 0", "not a number of seconds"),
    ],
)
def test_unsupported_perftest_flags_are_refused_with_a_reason(
    tool: ModuleType, words: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        tool.main(["-d", "x", *words.split(), "peer"])
    assert why in capsys.readouterr().err


def test_perftest_flags_without_effect_are_accepted() -> None:
    words = "-d x -F -e -i 1 -S 0 -Q 1 -l 1 -I 0 -f 0 --pkey_index 0 -u 16 --retry_count 7 -c RC -D 3 peer"
    work = plan(write_bw.flags().parse_args(words.split()))
    assert (work.attributes.timeout, work.attributes.retry_count) == (16, 7)
    assert (work.kind, work.seconds, work.iterations, work.both) == (QpType.RC, 3.0, 0, False)


def test_percentiles_are_computed() -> None:
    result = write_lat.summarize(2, [float(i) for i in range(1000, 0, -1)])
    assert (result.minimum, result.maximum, result.typical) == (1, 1000, 500.5)
    assert result.percentile_99 == pytest.approx(990, abs=1)
    assert result.percentile_99_9 == pytest.approx(999, abs=1)


@pytest.mark.parametrize("tool", [write_bw.main, write_lat.main])
def test_an_unreachable_server_is_reported(
    tool: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "connect", functools.partial(connect, timeout_s=0))
    monkeypatch.setattr(session, "check_device", lambda device: device)
    assert tool(["-d", "x", f"unix:{tmp_path}/none"]) == 1
    assert "No server answers at unix:" in capsys.readouterr().err


@pytest.mark.parametrize("tool", [write_bw.main, write_lat.main])
def test_a_missing_device_is_reported_and_leaves_the_server_waiting(
    tool: Main, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for device, message in (((), "Name the NIC to use: -d"), (("-d", f"{tmp_path}/none.sock"), "No agent answers")):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"{tmp_path}/meet{len(device)}")
            server.listen()
            server.setblocking(False)
            assert tool([*device, f"unix:{tmp_path}/meet{len(device)}"]) == 1
            with pytest.raises(BlockingIOError):
                server.accept()
        errors = capsys.readouterr().err
        assert message in errors
        assert errors.count("\n") == 1


def test_a_server_announces_that_it_waits_and_removes_its_socket(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "meet"
    accepted: list[PeerConnection] = []
    server = threading.Thread(target=lambda: accepted.append(accept(f"unix:{path}")))
    server.start()
    while str(path) not in listening():
        assert server.is_alive()
    connect(f"unix:{path}", "").close()
    server.join(10)
    assert "* Waiting for client to connect... *" in capsys.readouterr().out
    assert not path.exists()
    accepted[0].close()


def test_a_server_replaces_a_killed_one_but_not_a_waiting_one(tmp_path: Path) -> None:
    path = tmp_path / "meet"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))  # and its file stays
    accepted: list[PeerConnection] = []
    server = threading.Thread(target=lambda: accepted.append(accept(f"unix:{path}")))
    server.start()
    while str(path) not in listening():
        assert server.is_alive()
    with pytest.raises(ToolError, match="Another process listens at"):
        accept(f"unix:{path}")
    connect(f"unix:{path}", "").close()
    server.join(10)
    accepted[0].close()


def test_a_peer_that_exits_is_detected(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/meet"
    accepted: list[object] = []
    server = threading.Thread(target=lambda: accepted.append(accept(address)))
    server.start()
    while f"{tmp_path}/meet" not in listening():
        server.join(0.01)
    client = connect(address, "")
    server.join(10)
    accepted[0].close()  # type: ignore[attr-defined]
    with pytest.raises(ToolError, match="exited or closed the connection"):
        client.receive()
    client.close()


def listens(port: int) -> bool:
    entries = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines())
    return any(entry[1].endswith(f":{port:04X}") and entry[3] == "0A" for entry in entries)


def test_a_server_listens_on_the_given_tcp_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    accepted: list[PeerConnection] = []
    server = threading.Thread(target=lambda: accepted.append(accept(port, "127.0.0.1")))
    server.start()
    while not listens(int(port)):
        server.join(0.01)
    client = connect("127.0.0.1", port)
    server.join(10)
    client.send({"sizes": [1]})
    assert accepted[0].receive() == {"sizes": [1]}
    client.close()
    accepted[0].close()


def test_wrong_tcp_flags_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ToolError, match="No server answers"):
        connect("localhost", "1")
    for port, address in (("not a port", "localhost"), ("70000", "localhost"), ("0", "203.0.113.1")):
        with pytest.raises(ToolError, match="Cannot wait"):
            accept(port, address)
    with pytest.raises(ToolError, match="1 to 1024 queue pairs"):
        plan(write_bw.flags().parse_args(["-d", "x", "-q", "5000", "peer"]))


def test_a_peer_of_another_release_is_refused() -> None:
    with pytest.raises(ToolError, match="another version"):
        from_wire({"sizes": [1]})


NONSENSE = [
    b"x" * (2 << 20),
    b"\xff\xfe\n",
    b"[" * 100_000 + b"\n",
    b"[1]\n",
    b"7\n",
    b'{"sizes": [1]}\n',
]


@pytest.mark.parametrize("sent", NONSENSE, ids=lambda sent: sent[:12])
def test_a_server_refuses_malformed_plans(agents: Agents, sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    sending = threading.Thread(target=lambda: send_and_close(theirs, sent))
    sending.start()
    with pytest.raises(ToolError, match=r"does not speak|another version"):
        write_bw.serve(str(agents.paths[0]), PeerConnection(ours))
    ours.close()
    sending.join(10)


@pytest.mark.parametrize(
    "change", [{"sizes": [1 << 40]}, {"qps": 1 << 30}, {"depth": 1 << 30}, {"sizes": []}, {"qps": "x"}, {"qps": 0}]
)
def test_a_server_refuses_plans_that_are_too_large(change: dict[str, object]) -> None:
    plan = TransferPlan((64,), 1, None, 1, 1, False, QpType.MRC, QpAttributes())
    assert from_wire(to_json(plan)) == plan
    with pytest.raises(ToolError):
        from_wire({**to_json(plan), **change})


@pytest.mark.parametrize("sent", [b"{}\n", b"[1]\n", b'{"memory": 1, "qps": []}\n', b'{"memory": "x", "qps": "x"}\n'])
def test_malformed_endpoints_are_refused(agents: Agents, sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(sent)
    plan = TransferPlan((64,), 1, None, 1, 1, False, QpType.MRC, QpAttributes())
    with (
        pytest.raises(MrcError, match=r"does not speak|is not"),
        Side(str(agents.paths[0]), PeerConnection(ours), plan) as side,
    ):
        side.exchange()
    theirs.close()


def send_and_close(sock: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError), sock:  # it may have received enough
        sock.sendall(data)


def test_what_the_nic_refuses_of_the_flags_is_a_usage_error(
    agents: Agents, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise InvalidArgumentError("path_mtu must be between 256 and 4352, not 9000.")

    monkeypatch.setattr(write_bw, "measure", refuse)
    assert run(agents, write_bw.main, "-n", "2", "-m", "9000", folder=tmp_path)[1] == 2
    assert "write_bw: error: path_mtu must be between" in capsys.readouterr().err
