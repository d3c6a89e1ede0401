"""The prompt over a fabric that is not there: words, sentences, tables; agents, controller, switches are stand-ins."""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("mininet")

import finsy
from rich.console import Console

import p4src
from controller import translate
from controller.p4info import read_p4info
from controller.switch_reader import EntryRow, TableReading, table_names
from controller.values import FleetStatus
from mrc_host.verbs.errors import AgentLostError
from mrc_lab.cli.shell import _prompt
from mrc_lab.prompt import listing_commands, switch_views
from mrc_lab.prompt.prompt import Prompt
from p4runtime_shim.proto import switch_v1_pb2 as pb
from topologies.clos import multi_plane_clos
from topologies.emulation.process_watch import Crash
from topologies.emulation.run_directory import RunDirectory
from topologies.p4_program import saved_p4info

FABRIC = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4)


class Net(dict[str, Any]):
    """What the prompt needs of a Mininet."""

    hosts: tuple[Any, ...] = ()
    switches: tuple[Any, ...] = ()


class Watch:
    """Reports crashes when a test wants it."""

    def listen(self, notify: Any) -> None:
        self.notify = notify

    def listen_closed(self, notify: Any) -> None:
        self.close = notify

    def closing(self) -> bool:
        return False


class Controller:
    """All is well."""

    def status(self) -> FleetStatus:
        return FleetStatus("demo", True, ())

    def faults(self) -> list[Any]:
        return []

    def hand_entries(self, _switch: str) -> list[Any]:
        return []

    def links(self, pattern: str = "") -> list[Any]:
        FABRIC.find_links(pattern or "*")
        return []


class Agents:
    """h1 has two queue pairs to h3; one of its paths is denied, one bad in the second of them."""

    def __call__(self, host: str, operation: str, **arguments: Any) -> Any:
        FABRIC.nic(host)
        if host == "h4":
            raise AgentLostError("No agent answers at h4.sock: is the fabric up?")
        if operation == "hw_counters":
            return {"tx_data_packets": 4 if "qpn" in arguments else 9, "tx_lost_packets": 0, "queue_pairs": 3}
        if operation == "port_counters":
            return [{"link_up": 1, "link_downed": 0}, {"link_up": 0, "link_downed": 2}]
        if host != "h1":
            return []
        if operation == "qps":
            return [self.pair(7, "h3"), self.pair(8, "h3"), self.pair(9, "h2")]
        if operation == "denied_paths":
            return [{"peer": "fd00:6d:7263:1::1", "ev": 0x401}]
        return [self.path(ev, arguments["qpn"]) for ev in (0, 1, 0x400, 0x401)]

    @staticmethod
    def pair(qpn: int, remote: str) -> dict[str, Any]:
        counters = {"data_sent": 10, "retransmitted": 1, "lost": 2, "data_received": 3}
        return {
            "qpn": qpn, "client": f"x (python {qpn})", "type": "mrc", "remote": f"{remote}:5", "state": "rts",
            "counters": counters,
        }  # fmt: skip

    @staticmethod
    def path(ev: int, qpn: int) -> dict[str, Any]:
        state = "denied" if ev == 0x401 else "assumed_bad" if (ev, qpn) == (1, 8) else "good"
        rtt = {0: 12_345_678, 0x400: 98_765}.get(ev, 0)
        return {
            "ev": ev, "plane": ev >> 10, "state": state, "active": ev != 0x401, "sent": 10, "lost": ev & 1,
            "marked": 0, "trimmed": 0, "rtt": rtt, "evs": [ev, ev | 0x200], "skipped": 1,
        }  # fmt: skip


class Session:
    """A prompt and what it printed."""

    def __init__(self, tmp_path: Path) -> None:
        run = RunDirectory("demo", tmp_path)
        run.create()
        self.printed = io.StringIO()
        self.watch = Watch()
        names = (*FABRIC.nic_names, *(switch.name for switch in FABRIC.switches))
        self.net = Net({name: SimpleNamespace(connectionsTo=lambda other: (), waiting=False) for name in names})
        emulation = SimpleNamespace(
            net=self.net, fabric=FABRIC, run=run, watch=self.watch, switches_address="unix:/nowhere",
            socket=lambda host: f"{FABRIC.nic(host).name}.sock",
        )  # fmt: skip
        self.world = SimpleNamespace(
            emulation=emulation, fabric=FABRIC, controller=lambda: contextlib.nullcontext(Controller())
        )
        self.prompt = Prompt(self.world, Console(file=self.printed, width=80), io.StringIO())  # type: ignore[arg-type]
        # in place of connections to agents that do not run
        self.prompt._ask = Agents()  # type: ignore[method-assign]

    def says(self, line: str) -> str:
        """What a line makes it print."""
        self.printed.seek(0)
        self.printed.truncate()
        assert self.prompt.onecmd(line) is False
        return self.printed.getvalue()


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr("mininet.cli.poll", lambda: SimpleNamespace(register=lambda *_: None))  # input is in memory
    session = Session(tmp_path)
    with contextlib.closing(session.prompt):
        yield session


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("write", "use it like this: write h1 h3 64M\n'help write' says more."),
        ("write h1 h9 1M", "has no NIC that matches 'h9': did you mean h"),
        ("write h1 h1 1M", "a write goes from one host to another"),
        ("write h1 h3 lots", "'lots' is not a size such as 64K"),
        ('write "h1', "Missing closing quote"),
        ("wirte h1 h3 1M", "*** Unknown command: wirte\ndid you mean write"),
        ("qqqqqqq", "*** Unknown command: qqqqqqq\n'help' lists what there is."),
        ("h11 ls", "*** Unknown command: h11\ndid you mean h1"),
        ("evs h9", "has no NIC that matches 'h9'"),
        ("paths h1", "use it like this: paths h1 h3"),
        ("paths h1 h1", "a path goes from one host to another"),
        ("paths h4 h1", "No agent answers at h4.sock"),
        ("allreduce", "use it like this: allreduce 16M"),
        ("allreduce much", "'much' is not a size"),
        ("links t0-9:t1-0@p0", "no link that matches 't0-9:t1-0@p0': did you mean"),
        ("fault h1@p0 sideways", "'sideways' is no kind of fault"),
        ("tables t0-7@p0", "no switch that matches 't0-7@p0': did you mean t0-"),
        ("queues t0-0@p0 now", "use it like this: queues t0-0@p0, or queues t0-0@p0 reset"),
        ("capture t0-0:t1-0@p1", "say where to: capture t0-0:t1-0@p1 /tmp/link.pcapng"),
        ("capture t0-0:t1-7@p1 x", "no link that matches"),
        ("capture t0-0:t1-0@p1 /", "/ is a folder: give a file"),
        ("capture t0-0:t1-0@p1 /no/such/file", "is in a folder that does not exist"),
        ("capture stop", "no capture runs"),
        ("link h1 h9 down", "there is no host or switch 'h9'\ndid you mean h"),
        ("link h1 h2 down", "there is no link between h1 and h2\n'net' shows"),
        ("switch h1 stop", "no switch that matches 'h1'"),
        ("switch t0-0@p0 halt", "use it like this: switch t1-0@p0 stop"),
        ("xterm h9", "there is no host or switch 'h9'"),
        ("xterm h1", "xterm needs a display and there is none"),
        ("gterm h1", "gterm needs a display"),
        ("x h1", "x needs a display"),
        ("iperf h1 h2", "hosts have IPv6 addresses only"),
        ("iperfudp 1M h1 h2", "hosts have IPv6 addresses only"),
        ("dpctl show", "Use 'tables t0-0@p0'."),
        ("help nothing", "there is no command 'nothing'"),
        ("source", "use it like this: source "),
        ("source /nowhere", "/nowhere cannot be read: No such file"),
        ("source /bin/ls", "/bin/ls cannot be read: it is no text"),
        ("py 1/0", "ZeroDivisionError: division by zero"),
        ("px import nothing_there", "No module named 'nothing_there'"),
        ("map often", "use it like this: map"),
    ],
)
def test_a_mistake_prints_a_message_and_the_prompt_continues(
    at: Session, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    if line.startswith("map"):
        monkeypatch.setattr(Controller, "path_map", lambda _: SimpleNamespace(running=False, rate=0), raising=False)
    printed = at.says(line)
    assert message in printed
    assert "Traceback" not in printed
    assert len(printed.splitlines()) <= 2
    assert at.prompt.failed


def test_exceptions_of_mininet_commands_print_a_message(at: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object) -> None:
        raise AttributeError("'NoneType' object has no attribute 'ping'")

    monkeypatch.setattr("mininet.cli.CLI.do_pingall", stumble)
    assert at.says("pingall") == "pingall failed: 'NoneType' object has no attribute 'ping'\n"
    assert at.prompt.failed


def test_paths_lists_every_path_with_its_counters(at: Session) -> None:
    printed = at.says("paths h1 h3")
    rows = [line.split() for line in printed.splitlines()[2:]]
    assert rows == [
        ["0x00000000", "0", "t1-0@p0", "GOOD", "yes", "20", "0", "0", "0", "12.3", "ms"],
        ["0x00000001", "0", "t1-1@p0", "GOOD", "1,", "ASSUMED_BAD", "1", "yes", "20", "2", "0", "0", "-"],
        ["0x00000400", "1", "t1-0@p1", "GOOD", "yes", "20", "0", "0", "0", "99", "us"],
        ["0x00000401", "1", "t1-1@p1", "DENIED", "no", "20", "2", "0", "0", "-"],
    ]
    assert not at.prompt.failed


def test_paths_works_without_a_queue_pair(at: Session) -> None:
    rows = [line.split() for line in at.says("paths h2 h1").splitlines()[2:]]
    assert [row[2:5] for row in rows] == [["t0-0@p0", "not", "used"], ["t0-0@p1", "not", "used"]]


def test_queue_pairs_and_entropy_values_are_listed(at: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(at.says("qps h1").splitlines()) == 2 + 3
    assert len(at.says("evs h1").splitlines()) == 2 + 12
    for command in ("qps h1", "evs h1"):  # as Wireshark shows them
        assert "0x000007" in at.says(command)
        assert "h3:0x000005" in at.says(command)
    assert at.says("evs h2") == "h2 has no queue pairs: 'write h2 ...' makes one\n"


def test_the_path_that_switches_choose_has_no_uplink_and_no_counts(
    at: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entropy value is a UDP source port; what is sent is known of the queue pair alone."""
    for kind, known in (("rc_sr", False), ("rc", False), ("uet", True)):
        pair = {**Agents.pair(7, "h3"), "type": kind}
        monkeypatch.setattr(Agents, "pair", staticmethod(lambda qpn, remote, pair=pair: pair))
        row = rows_of(at, "evs h1 --json")[0]
        values = [row[name] for name in ("uplink", "sent_packets", "lost_packets", "trimmed_packets")]
        assert (None not in values) == known, kind
        assert "None" not in at.says("evs h1")


def test_counters_shows_nic_ports_and_queue_pair_with_units(at: Session) -> None:
    rows = [line.split() for line in at.says("counters h1").splitlines()[2:]]
    assert rows == [
        ["h1", "tx_data_packets", "9", "packets", "counter"],
        ["h1", "queue_pairs", "3", "queue", "pairs", "gauge"],
        ["h1@p0", "link_up", "1", "0", "or", "1", "gauge"],
        ["h1@p1", "link_downed", "2", "times", "counter"],
    ]
    rows = [line.split() for line in at.says("counters h1 0x000007").splitlines()[2:]]
    assert rows == [["0x000007", "tx_data_packets", "4", "packets", "counter"]]


def test_counters_as_json_include_zeros_and_all_queue_pairs(at: Session) -> None:
    printed = json.loads(at.says("counters h1 --json"))
    assert {row["host"] for row in printed} == {"h1"}
    found = {(row["port"], row["qpn"], row["counter"]): row["value"] for row in printed}
    assert len(found) == len(printed)
    assert found[None, None, "tx_lost_packets"] == 0
    assert [found[port, None, "link_up"] for port in (0, 1)] == [1, 0]
    assert [found[None, qpn, "tx_data_packets"] for qpn in (7, 8, 9)] == [4, 4, 4]
    of_one = json.loads(at.says("counters h1 8 --json"))
    assert {row["qpn"] for row in of_one} == {8}
    assert "'qps h1' lists them" in at.says("counters h1 first")
    assert at.prompt.failed


class Reader:
    """A switch with one table."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    table_names = table_names(p4src.BUILD)

    def table_name(self, name: str) -> str:
        schema = finsy.P4Schema(read_p4info(saved_p4info(p4src.BUILD).read_text()))
        return translate.find_table(schema, name).alias

    def table(self, name: str) -> TableReading:
        rows = (
            EntryRow("locator=0x1", "set_egress(port=1, dmac=02:30:00:00:00:00)", 0, 12, 999_999_999_999),
            EntryRow("(default)", "drop()", 0, 3, 4, True),
        )
        return TableReading(name, 64, True, rows)

    def counter(self, name: str) -> dict[int, int]:
        return {"marked_packets": {1: 5}, "trimmed_packets": {2: 6}}.get(name, {4: 7, 99: 1})


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> pb.Switch:
    monkeypatch.setattr(listing_commands, "SwitchReader", Reader)
    queue = pb.Queue(priority=7, packets=1, bytes=100, peak_packets=9, peak_bytes=900, max_packets=64, drops=2)
    port = pb.Port(port=1, queues=[pb.Queue(priority=0, max_packets=64), queue])
    return pb.Switch(device_id=1, ports=[port], drops={"queue_full": 2, "ingress": 8})


def test_tables_fit_any_terminal_width(at: Session, switch: pb.Switch) -> None:
    printed = at.says("tables t0-0@p0")
    assert len(printed.splitlines()) == 2 + len(Reader.table_names)
    assert printed.splitlines()[2].split() == ["arrival_fault", "1", "64", "15", "drop()"]
    printed = at.says("tables t0-0@p0 usid_next")
    assert "set_egress(port=1, dmac=02:30:00:00:00:00)  12       999999999999" in printed
    assert "(default)" in printed
    assert "did you mean usid_next" in at.says("tables t0-0@p0 usid_nxt")


def test_queues_shows_depths_marks_trims_and_drops(
    at: Session, switch: pb.Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def managed(one: Any, address: str, *, reset_peaks: bool) -> pb.Switch:
        asked.append((one.name, address, reset_peaks))
        return switch

    monkeypatch.setattr(switch_views, "managed", managed)
    lines = at.says("queues t0-0@p0 reset").splitlines()
    assert asked == [("t0-0@p0", "unix:/nowhere", True)]
    assert lines[2].split() == ["1", "h1@p0", "7", "1", "100", "9", "900", "64", "2", "5", "0"]
    assert "dropped by the P4 program: no route 7, 99 1" in lines
    assert "dropped by the switch: queue_full 2" in lines


def test_queues_of_bmv2_show_counts_without_depths(
    at: Session, switch: pb.Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switch_views, "managed", lambda *_, **__: None)
    lines = at.says("queues t0-0@p0").splitlines()
    assert lines[2].split() == ["1", "h1@p0", "5", "0"]
    assert lines[3].split() == ["2", "h2@p0", "0", "6"]
    assert "BMv2 does not report the depth of its queues." in lines


def rows_of(at: Session, line: str) -> list[dict[str, Any]]:
    """What a command lists as JSON, which is all that it prints."""
    rows: list[dict[str, Any]] = json.loads(at.says(line))
    assert not at.prompt.failed
    return rows


def test_queue_pairs_and_paths_as_json_have_numbers_and_both_ends(at: Session) -> None:
    first = rows_of(at, "qps --json h1")[0]
    assert (first["qpn"], first["remote_host"], first["remote_qpn"], first["lost_packets"]) == (7, "h3", 5, 2)
    assert rows_of(at, "qps h2 --json") == []
    evs = rows_of(at, "evs h1 --json")
    assert [(row["host"], row["rtt_ns"]) for row in evs[:3]] == [("h1", 12_345_678), ("h1", None), ("h1", 98_765)]
    assert {(row["evs"], row["skipped_evs"]) for row in evs} == {(2, 1)}
    paths = rows_of(at, "paths h1 h3 --json")
    assert {(row["source"], row["destination"]) for row in paths} == {("h1", "h3")}
    assert [(row["over"], row["denied"]) for row in paths] == [
        (["t1-0@p0"], False), (["t1-1@p0"], False), (["t1-0@p1"], False), (["t1-1@p1"], True),
    ]  # fmt: skip
    assert paths[1]["states"] == {"good": 1, "assumed_bad": 1}


def test_tables_and_queues_as_json_leave_nothing_out(
    at: Session, switch: pb.Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switch_views, "managed", lambda *_, **__: switch)
    queues = rows_of(at, "queues t0-0@p0 --json")
    assert [(row["priority"], row["waiting_bytes"], row["port_ecn_marked_packets"]) for row in queues] == [
        (0, 0, 5), (7, 100, 5),
    ]  # fmt: skip
    assert len(rows_of(at, "tables t0-0@p0 --json")) == len(Reader.table_names)
    entries = rows_of(at, "tables t0-0@p0 usid_next --json")
    assert [row["matched_bytes"] for row in entries] == [999_999_999_999, 4]
    monkeypatch.setattr(switch_views, "managed", lambda *_, **__: None)
    assert [(row["port"], row["waiting_bytes"]) for row in rows_of(at, "queues t0-0@p0 --json")][:2] == [
        (1, None), (2, None),
    ]  # fmt: skip


def test_what_a_client_is_called_is_printed_as_it_is(at: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Agents, "pair", staticmethod(lambda qpn, remote: {**_PAIR, "qpn": qpn}))
    assert "[red]:smile:" in at.says("qps h1")
    assert rows_of(at, "qps h1 --json")[0]["client"] == "[red]:smile:"


_PAIR = {**Agents.pair(7, "h3"), "client": "[red]:smile:"}


@pytest.mark.parametrize("line", ["qps h1 h2 --json", "evs --json", "links --json h1@p0 h2@p0", "queues --json"])
def test_json_takes_the_same_words(at: Session, line: str) -> None:
    assert "use it like this" in at.says(line)
    assert at.prompt.failed


def test_all_reduce_runs_the_tool_with_one_size(at: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    monkeypatch.setattr(Prompt, "_among_all", lambda _self, test, line: ran.append((test, line)))
    at.says("allreduce 16M -n 3")
    assert ran == [("all_reduce_perf", "-b 16M -e 16M -n 3")]


def test_a_crash_is_reported_at_once_and_fails_the_session(at: Session) -> None:
    at.says("nodes")
    at.watch.notify(Crash("switches", 12, time.time(), "was killed by SIGKILL", "ready"))
    assert "*** process switches was killed by SIGKILL at" in at.printed.getvalue()
    assert at.prompt.failed
    at.prompt.close()
    before = at.printed.getvalue()
    at.watch.notify(Crash("h1", 13, time.time(), "ended", ""))
    assert at.printed.getvalue() == before, "once it is left nobody is notified"


def test_wait_returns_when_all_switches_are_ready(at: Session) -> None:
    assert at.says("wait") == "all 0 switches hold their entries\n"


def test_exit_and_eof_end_the_prompt(at: Session) -> None:
    assert at.prompt.onecmd("exit") is True
    assert at.prompt.onecmd("EOF") is True


def test_help_for_a_node_explains_its_use(at: Session) -> None:
    assert at.says("help h1") == "a command after h1 runs there: h1 ip -br addr\n"


def test_captures_belong_to_the_invoking_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from mrc_lab.prompt import captures

    monkeypatch.setenv("SUDO_USER", "root")
    assert captures.own_path("~/x.pcapng") == Path("/root/x.pcapng")
    monkeypatch.chdir(tmp_path)
    assert captures.own_path("x.pcapng") == tmp_path / "x.pcapng"
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setenv("SUDO_GID", "100")
    assert captures.invoking_user() == (1000, 100)
    monkeypatch.delenv("SUDO_GID")
    assert captures.invoking_user() is None


def test_source_runs_a_file_and_py_evaluates_python(at: Session, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("py 'first'\npy 6 * 7\n\npx print('third')\nexit\npy 'never'\n")
    assert at.says(f"source {file}").split() == ["first", "42"]
    assert not at.prompt.failed


def test_mininet_output_goes_to_the_prompts_output(at: Session, capfd: pytest.CaptureFixture[str]) -> None:
    assert "available nodes are: \nh1 h2" in at.says("nodes")
    assert not at.prompt.failed
    at.says("h1")  # a node without a command: Mininet's own error
    assert at.prompt.failed
    printed, errors = capfd.readouterr()
    assert printed == ""
    assert errors == "*** Please enter a command for node: h1 <cmd>\n"


@pytest.mark.parametrize(("typed", "status"), [("nodes\n", 0), ("nodes\nnonsense\nnodes\n", 1), ("h1\n", 1), ("", 0)])
def test_piped_input_exits_with_status_1_if_a_command_failed(
    at: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, typed: str, status: int
) -> None:
    (tmp_path / "typed").write_text(typed)
    with (tmp_path / "typed").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert _prompt(at.world, Console(file=at.printed), ()) == status  # type: ignore[arg-type]
