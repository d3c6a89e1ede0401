"""Debian's Prometheus scrapes a fabric with links down, faults and stopped agents, and runs the dashboard's queries."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mrc_lab.cli.main import run
from tests.controller.serving import free_port
from tests.docs.blocks import blocks
from tests.integration.names import own
from tests.integration.terminal import Terminal
from tests.waiting import until
from topologies import addressing
from topologies.emulation import cleanup
from topologies.emulation.run_directory import RunDirectory
from topologies.loader import load_file

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root"),
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Debian's package prometheus is not installed"),
]

MRC = Path(sys.executable).with_name("mrc")
RATE_WINDOW = "30s"


@dataclass(frozen=True)
class Lab:
    """A fabric, its exporter's address and the Prometheus that scrapes it."""

    name: str
    exporter: str
    prometheus: str

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """What a query gives now: labels and values."""
        where = f"http://{self.prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        with urllib.request.urlopen(where, timeout=60) as answer:
            result: dict[str, Any] = json.load(answer)
        assert result["status"] == "success", result
        return [(series["metric"], float(series["value"][1])) for series in result["data"]["result"]]

    def becomes(self, expression: str, wanted: float) -> None:
        """Wait until a query gives one series with this value."""
        until(lambda: [value for _, value in self.query(expression)] == [wanted], f"{expression} to be {wanted}")


@contextmanager
def process(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A process, ended by SIGTERM."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        try:
            yield running
        finally:
            running.terminate()


def configuration(exporter: str) -> str:
    """The configuration on the documentation page, for an exporter elsewhere, with the shortest interval it advises."""
    (text,) = [
        block.text for block in blocks("text") if block.page == "telemetry.md" and "scrape_configs" in block.text
    ]
    assert "127.0.0.1:9464" in text
    return text.replace("127.0.0.1:9464", exporter).replace("5s", "3s")


def answers(url: str) -> bool:
    """Whether a server answers there."""
    try:
        with urllib.request.urlopen(url, timeout=60):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("prometheus")
    found = Lab(own("telemetry"), f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}")
    (folder / "prometheus.yml").write_text(configuration(found.exporter))
    try:
        assert run(["up", found.name, "--rate", "20M"]) == 0
        with process(MRC, "metrics", found.name, "--listen", found.exporter) as exporter:
            assert exporter.stdout is not None
            assert found.exporter in exporter.stdout.readline()
            with process(
                "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={found.prometheus}",
            ):  # fmt: skip
                until(lambda: answers(f"http://{found.prometheus}/-/ready"), "Prometheus")
                found.becomes("mrc_up", 1)
                yield found
        assert exporter.returncode == 0
    finally:
        cleanup.clean(found.name, force=True)


def panels() -> Iterator[tuple[str, str]]:
    """Title and query of every panel of the dashboard, as Grafana sends them when everything is selected."""
    printed = subprocess.run([MRC, "metrics", "--dashboard"], stdout=subprocess.PIPE, check=True).stdout
    for panel in json.loads(printed)["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"]
            for variable, value in (("$__rate_interval", RATE_WINDOW), ("$instance", ".*"), ("$device", ".*")):
                query = query.replace(variable, value)
            assert "$" not in query
            yield panel["title"], query


def test_every_query_of_the_dashboard_gives_data(lab: Lab):
    with Terminal("shell", lab.name) as terminal:  # whose queue pairs are there as long as it is
        terminal.until("mrc> ")
        for _ in range(2):
            assert "every byte right" in terminal.run("write h1 h3 1M")
            lab.becomes('increase(mrc_nic_completed_bytes_total{device="h1"}[10s]) > bool 0', 1)
        for title, query in panels():  # some need two scrapes, which take their time on a busy machine
            until(lambda query=query: any(math.isfinite(value) for _, value in lab.query(query)), f"{title}: {query}")
    assert len({title for title, _ in panels()}) >= 20


def test_names_and_types_pass_the_linter_of_prometheus(lab: Lab):
    text = subprocess.run(
        [MRC, "metrics", lab.name, "--once", "--queue-pairs"], stdout=subprocess.PIPE, check=True
    ).stdout
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_a_link_taken_down_behind_its_back_and_a_fault_are_seen(lab: Lab):
    fabric = load_file(RunDirectory(lab.name).fabric_file)
    interface = addressing.interface_name(fabric, fabric.link("h1@p0").switch_end)
    lab.becomes('node_infiniband_state_id{device="h1",port="0"}', 4)
    flaps = lab.query('node_infiniband_link_downed_total{device="h1",port="0"}')[0][1]
    subprocess.run(["ip", "link", "set", interface, "down"], check=True)
    lab.becomes('mrc_link_up{link="h1@p0"}', 0)
    lab.becomes('node_infiniband_state_id{device="h1",port="0"}', 1)
    assert run(["fault", "add", lab.name, "t0-0:t1-0@p1", "loss", "1%"]) == 0
    lab.becomes('mrc_faults{kind="loss",state="active"}', 1)
    lab.becomes('mrc_link_faults{link="t0-0:t1-0@p1"}', 1)
    assert run(["fault", "clear", lab.name, "all"]) == 0
    subprocess.run(["ip", "link", "set", interface, "up"], check=True)
    lab.becomes('mrc_faults{kind="loss",state="active"}', 0)
    lab.becomes('mrc_link_up{link="h1@p0"}', 1)
    lab.becomes('node_infiniband_state_id{device="h1",port="0"}', 4)
    lab.becomes('node_infiniband_link_downed_total{device="h1",port="0"}', flaps + 1)


@contextmanager
def stopped(lab: Lab, *names: str) -> Iterator[None]:
    """A process of the fabric that does not run meanwhile."""
    (pid,) = [one.pid for one in RunDirectory(lab.name).records() if one.name in names]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_stopped_agent_is_down_and_the_others_are_read(lab: Lab):
    with stopped(lab, "h2", "agent-h2"):
        lab.becomes('mrc_nic_up{device="h2"}', 0)
        lab.becomes("sum(mrc_nic_up)", 3)
        lab.becomes("up", 1)
    lab.becomes("sum(mrc_nic_up)", 4)


def test_stopped_switches_and_a_stopped_controller_are_down_and_the_agents_are_read(lab: Lab):
    with stopped(lab, "switches"):
        lab.becomes("sum(mrc_switch_up)", 0)
        lab.becomes("sum(mrc_nic_up)", 4)
    lab.becomes("sum(mrc_switch_up)", 12)
    with stopped(lab, "controller"):
        lab.becomes("mrc_controller_up", 0)
        lab.becomes("sum(mrc_nic_up)", 4)
        lab.becomes("up", 1)
    lab.becomes("mrc_controller_up", 1)


def test_a_fabric_may_be_taken_down_and_brought_up_in_another_size(lab: Lab):
    assert run(["down", lab.name]) == 0
    lab.becomes("mrc_up", 0)
    lab.becomes("count(mrc_nic_up) or vector(0)", 0)
    assert run(["up", lab.name, "--hosts", "2", "--t0", "2", "--t1", "1", "--rate", "20M"]) == 0
    lab.becomes("mrc_up", 1)
    lab.becomes("count(mrc_nic_up)", 2)
    lab.becomes("up", 1)
