"""``mrc up``, ``mrc shell NAME`` and ``mrc down``: fabrics that stay up in the background, by name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_lab.cli.main import run
from mrc_lab.fabric import doctor
from mrc_lab.reports.perfetto.convert import convert
from mrc_lab.top.rows import VIEWS
from mrc_lab.top.sampling import FabricSampler
from tests.controller.serving import certificate, free_port, token_file
from tests.integration import cleaning, other_user
from tests.integration.names import own
from tests.integration.terminal import CTRL_D, Terminal
from tests.integration.traces import Traces, wait_until_gone
from topologies.emulation import bring_up, cleanup
from topologies.emulation.run_directory import RunDirectory

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]

SIZES = ("--hosts", "2", "--t0", "2", "--t1", "1", "--rate", "20M")
MRC = Path(sys.executable).with_name("mrc")


class Standing:
    """A fabric by name, and what must be gone when it is down."""

    def __init__(self, what: str) -> None:
        self.name = own(what)
        self.traces = Traces(self.name)

    def up(self) -> None:
        assert run(["up", "--name", self.name, *SIZES]) == 0
        self.traces.note()
        owner = RunDirectory(self.name).owner()
        assert owner is not None
        self.owner = owner

    def down(self) -> None:
        assert run(["down", self.name]) == 0
        wait_until_gone(self.traces.pids)
        assert self.traces.left() == []
        assert not Path(f"/proc/{self.owner}/cmdline").exists() or _ended(self.owner)


def at_prompt(name: str, *commands: str) -> str:
    """What the prompt of a fabric that is up prints, standard error included."""
    words = [word for command in commands for word in ("-c", command)]
    done = subprocess.run(
        [MRC, "shell", name, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def _ended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"


@pytest.fixture
def alone() -> Iterator[None]:
    with cleaning.alone():
        yield


@pytest.fixture
def fabric() -> Iterator[Standing]:
    found = Standing("standing")
    yield found
    cleanup.clean(found.name, force=True)


def test_a_fabric_in_the_background_accepts_a_prompt_and_leaves_nothing(
    fabric: Standing, capfd: pytest.CaptureFixture[str]
):
    fabric.up()
    assert "up and verified in" in capfd.readouterr().out
    printed = at_prompt(fabric.name, "write h1 h2 256K", "h1 ip -br link", "links")
    assert "every byte right" in printed
    assert "h1-eth1" in printed
    assert RunDirectory(fabric.name).owner() == fabric.owner, "the prompt took it down"
    fabric.down()


def test_the_event_traces_of_all_hosts_are_recorded_until_interrupted(fabric: Standing, tmp_path: Path):
    fabric.up()
    recorder = subprocess.Popen(
        [MRC, "trace", "record", fabric.name, "--folder", str(tmp_path / "traces")], stdout=subprocess.PIPE, text=True
    )
    assert recorder.stdout is not None
    assert "recording 2 hosts" in recorder.stdout.readline()
    at_prompt(fabric.name, "write h1 h2 256K")
    recorder.send_signal(signal.SIGINT)
    assert "mrc trace convert" in recorder.communicate()[0]
    assert recorder.returncode == 0
    sizes = [path.stat().st_size for path in sorted((tmp_path / "traces").iterdir())]
    at_prompt(fabric.name, "write h1 h2 64K")
    assert [path.stat().st_size for path in sorted((tmp_path / "traces").iterdir())] == sizes, "recording goes on"
    done = convert([tmp_path / "traces"], tmp_path / "out.pftrace")
    assert done.hosts == ("h1", "h2")
    assert done.events > 2 * 256 // 4
    fabric.down()


@pytest.mark.second_ring
def test_top_reads_a_fabric_that_is_up(fabric: Standing):
    fabric.up()
    run_directory = RunDirectory(fabric.name)
    sockets = {name: str(run_directory.host_socket(name)) for name in ("h1", "h2")}
    with Terminal("shell", fabric.name) as prompt:
        prompt.until("mrc> ")
        prompt.run("write h1 h2 256K")
        reader = FabricSampler(str(run_directory.controller_socket), sockets)
        try:
            sample = reader.read()
        finally:
            reader.close()
    assert sample.problems() == []
    found = {view.name: list(view.rows(sample, None)) for view in VIEWS}
    assert {row.key for row in found["queue pairs"]} >= {f"h1 {sample.hosts['h1'].pairs[0].info.qpn}"}
    assert all(row.cells[1].text.plain == "up" for row in found["links"])
    assert all(row.cells[4].text.plain == "good" for row in found["paths"])
    assert found["planes"]
    with Terminal("top", fabric.name, environment={"TERM": "xterm-256color"}) as top:
        top.until("queue pairs")
        top.type("q")
        assert top.ended() == 0
    fabric.down()


@pytest.mark.second_ring
def test_another_user_is_told_who_owns_the_fabric(fabric: Standing):
    fabric.up()
    examined = other_user.mrc("doctor").stdout
    assert f"up: {fabric.name} (another user's: use sudo)" in examined
    assert "mrc clean" not in examined
    for words in (["fault", "list", "--fabric"], ["map"]):
        refused = other_user.mrc(*words, fabric.name)
        assert (refused.returncode, refused.stdout) == (3, "")
        assert refused.stderr == (
            f"mrc: Fabric {fabric.name} is up, but belongs to another user.\n     Run the same command with sudo.\n"
        )
    fabric.down()


@pytest.mark.second_ring
def test_a_prompt_ends_when_its_fabric_is_taken_down(fabric: Standing):
    fabric.up()
    with Terminal("shell", fabric.name) as waiting, Terminal("shell", fabric.name) as busy:
        waiting.until("mrc> ")
        busy.until("mrc> ")
        busy.type("h1 sleep 1000\n")
        busy.until("sleep 1000")
        waiting.run("h1 true")
        fabric.down()
        for terminal in (waiting, busy):
            before = terminal.until(f"*** Fabric {fabric.name} was taken down.")
            assert "process" not in before, "what ends with the fabric has not crashed"
            assert terminal.ended() == 3


@pytest.mark.second_ring
def test_commands_that_fail_since_the_fabric_goes_down_end_with_status_3(fabric: Standing):
    fabric.up()
    RunDirectory(fabric.name).closing_file.touch()  # the owner does this first
    words = (MRC, "shell", fabric.name, "-c", "h1 echo be''gun", "-c", "write h1 h2", "-c", "h1 echo la''ter")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as failing:
        assert failing.stdout is not None
        for line in failing.stdout:
            if "use it like this" in line:
                break
        fabric.down()
        printed, _ = failing.communicate()
    assert failing.returncode == 3
    assert f"*** Fabric {fabric.name} was taken down." in printed
    assert "later" not in printed, "no command follows the one that failed"


@pytest.mark.second_ring
def test_an_old_prompt_does_not_serve_a_new_fabric_of_the_same_name(fabric: Standing):
    fabric.up()
    with Terminal("shell", fabric.name) as terminal:
        terminal.until("mrc> ")
        os.kill(fabric.owner, signal.SIGKILL)
        terminal.until(f"*** Fabric {fabric.name} was taken down.")
        assert terminal.ended() == 3
    assert run(["down", fabric.name]) == 0
    fabric.up()
    fabric.down()


def test_an_exited_node_shell_is_reported_and_replaced(fabric: Standing):
    fabric.up()
    with Terminal("shell", fabric.name) as terminal:
        terminal.until("mrc> ")
        for way in ("kill -9 $$", "exit"):
            for node in ("h1", "t0-0@p0"):
                assert f"The shell of {node} has ended; the next command starts a new one." in terminal.run(
                    f"{node} {way}"
                )
                assert "fine" in terminal.run(f"{node} echo fi''ne")
        assert "h1-eth1" in terminal.run("h1 ip -br link"), "the new shell is in the host's namespace"
        assert "every byte right" in terminal.run("write h1 h2 64K")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
    fabric.down()


def test_up_twice_and_down_twice_are_reported(fabric: Standing, capfd: pytest.CaptureFixture[str]):
    fabric.up()
    assert run(["up", "--name", fabric.name, *SIZES]) == 3
    assert f"Fabric {fabric.name} is up already (process {fabric.owner})" in capfd.readouterr().err
    assert RunDirectory(fabric.name).owner() == fabric.owner
    fabric.down()
    assert run(["down", fabric.name]) == 3
    assert f"there is no fabric {fabric.name}" in capfd.readouterr().err
    assert run(["shell", fabric.name]) == 3
    printed = capfd.readouterr().err  # other tests may have fabrics up
    assert f"There is no fabric {fabric.name}" in printed or f"Fabric {fabric.name} is not up" in printed


def test_the_controller_accepts_network_clients_with_the_token(
    fabric: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """As docs/faults.md does it, on a port that is free here."""
    monkeypatch.chdir(tmp_path)
    port = free_port()
    certificate(tmp_path)
    token = subprocess.run(["openssl", "rand", "-hex", "16"], capture_output=True, text=True, check=True).stdout
    token_file(tmp_path, token.strip())
    listen = ("--listen", f"0.0.0.0:{port}", "--token-file", "token")
    assert run(["up", "--name", fabric.name, *SIZES, *listen]) == 3
    assert "is reachable from the network, which requires a token and TLS" in capfd.readouterr().err
    tls = ("--tls-cert", "localhost.pem", "--tls-key", "localhost.key")
    assert run(["up", "--name", fabric.name, *SIZES, *listen, *tls]) == 0
    client = ("--address", f"localhost:{port}", "--token-file", "token", "--tls-ca", "localhost.pem")
    assert run(["fault", "add", "h1@p0", "down", *client]) == 0
    capfd.readouterr()
    assert "fault f1: h1@p0 down" in at_prompt(fabric.name, "fault list"), "the prompt needs no token"
    assert run(["fault", "clear", "all", *client]) == 0
    assert run(["fault", "list", *client[:2], *client[4:]]) == 3
    assert "wants a token" in capfd.readouterr().err
    assert run(["down", fabric.name]) == 0


@pytest.mark.second_ring
def test_two_fabrics_are_selected_by_name(fabric: Standing):
    other = Standing("second")
    try:
        fabric.up()
        other.up()
        fabric.down()
        assert "every byte right" in at_prompt(other.name, "write h1 h2 64K")
        other.down()
    finally:
        cleanup.clean(other.name, force=True)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("victims", ["owner", "switches", "controller", "agents", "all"])
def test_down_leaves_nothing_after_any_crash(fabric: Standing, victims: str):
    fabric.up()
    pids = {record.name: record.pid for record in RunDirectory(fabric.name).records()} | {"owner": fabric.owner}
    chosen = {"agents": ["h1", "h2"], "all": [name for name in pids if name != "owner"] + ["owner"]}
    for name in chosen.get(victims, [victims]):
        os.kill(pids[name], signal.SIGKILL)
    fabric.down()


def test_earlier_crashes_are_reported_to_a_joining_prompt(fabric: Standing, capfd: pytest.CaptureFixture[str]):
    fabric.up()
    directory = RunDirectory(fabric.name)
    pids = {record.name: record.pid for record in directory.records()}
    os.kill(pids["h2"], signal.SIGKILL)
    log = directory.log_file("owner")
    while "process h2 was killed by SIGKILL" not in (log.read_text() if log.exists() else ""):
        assert not _ended(fabric.owner)
    assert "*** process h2 was killed by SIGKILL" in at_prompt(fabric.name, "nodes")
    assert f"{fabric.name}: process h2 was killed by SIGKILL" in " ".join(
        found.detail for found in doctor.check_fabrics()
    )
    fabric.down()


@pytest.mark.usefixtures("alone")
def test_the_doctor_cleans_up_after_a_kill(fabric: Standing):
    fabric.up()
    shell = next(record.pid for record in RunDirectory(fabric.name).records() if record.name == "shell-h1")
    with subprocess.Popen(["mnexec", "-a", str(shell), "sleep", "1000"]) as inside:
        while Path(f"/proc/{inside.pid}/comm").read_text() != "sleep\n":  # it is in the host's namespace then
            assert inside.poll() is None
        os.kill(fabric.owner, signal.SIGKILL)
        wait_until_gone({fabric.owner: 0})
        found = doctor.check_leftovers()
        assert not found.ok
        assert fabric.name in found.detail
        assert found.fix is doctor.Fix.CLEAN
        assert f"{fabric.name}: " in doctor.apply(found.fix)
        assert inside.wait(20) == -signal.SIGKILL
    assert fabric.traces.left() == []
    assert fabric.name not in doctor.check_leftovers().detail


def test_a_fabric_of_a_running_prompt_is_left_alone(capsys: pytest.CaptureFixture[str]):
    from topologies.clos import multi_plane_clos

    with bring_up.emulated(multi_plane_clos(own("prompt"), planes=1, t0=1, t1=0, hosts=2), agents=False):
        assert run(["down", own("prompt")]) == 3
        printed = capsys.readouterr().err
        assert f"belongs to process {os.getpid()}" in printed
        assert "--force" in printed


def test_a_failed_bring_up_is_reported_and_leaves_nothing(fabric: Standing, capfd: pytest.CaptureFixture[str]):
    assert run(["up", "--name", fabric.name, "--hosts", "3"]) == 3
    assert "3 hosts cannot be spread evenly" in capfd.readouterr().err
    assert fabric.traces.left() == []


@pytest.mark.second_ring
def test_an_interrupt_during_bring_up_takes_the_fabric_down(fabric: Standing):
    """On a busy machine the fabric may be up before we are running again to interrupt it; then we try again."""
    statuses = [0]
    while statuses[-1] == 0 and len(statuses) < 5:
        run(["down", fabric.name])
        with subprocess.Popen([MRC, "up", "--name", fabric.name, "--planes", "4"], stderr=subprocess.PIPE) as command:
            lock = RunDirectory(fabric.name).path / "fabric.yaml"
            while not lock.exists():
                assert command.poll() is None
            command.send_signal(signal.SIGINT)
            statuses.append(command.wait(60))
    assert statuses[-1] == 130
    assert fabric.traces.left() == []


@pytest.mark.second_ring
def test_a_fabric_loads_nothing_from_the_current_folder(fabric: Standing, tmp_path: Path):
    """Whatever modules and commands it holds, none is run by any process of the fabric, nor by the prompt's tools."""
    witness = tmp_path / "executed"
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("yaml", "queue", "json", "grpc", "runpy", "numpy", "click", "mininet", "mrc_lab", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"open({str(witness)!r}, 'a').write(__name__ + ' ')\n")
    for name in ("setpriv", "mnexec", "cc", "ip"):
        (folder / name).write_text(f"#!/bin/sh\necho {name} >> {witness}\nexit 1\n")
        (folder / name).chmod(0o755)
    environment = {**os.environ, "PATH": f".:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment["PYTHONSTARTUP"] = str(folder / "yaml.py")

    def mrc(*words: str) -> str:
        return subprocess.run(
            [MRC, *words], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=120, check=True,
        ).stdout  # fmt: skip

    mrc("up", "--name", fabric.name, *SIZES)
    output = mrc(
        "shell", fabric.name, "-c", "write h1 h2 64K", "-c", "write_bw h1 h2 -n 5", "-c", "mrc_ping h1 h2 -c 1"
    )
    mrc("down", fabric.name)
    assert "BW average" in output, output
    assert not witness.exists(), witness.read_text()
