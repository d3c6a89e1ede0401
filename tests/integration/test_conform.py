"""``mrc conform`` over real interfaces: an agent keeps every rule, by its verbs and by a program that speaks for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_common import children
from mrc_host.back_to_back import BackToBack

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120
TIMED = {"R2.12", "R2.13", "R3.1", "R3.5", "R3.6"}
"""What these rules ask for depends on when a busy machine runs the agent; in memory all are examined."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackToBack]:
    with BackToBack(tmp_path_factory.mktemp("hosts")) as hosts:
        hosts.start(0)
        yield hosts


def conforming(hosts: BackToBack, *options: str) -> subprocess.Popen[str]:
    interfaces = [port.interface for port in hosts.configs[1].ports]
    words = [word for name in interfaces for word in ("--interface", name)]
    mrc = children.python("mrc_lab", "conform", *words, *options)
    command = ("ip", "netns", "exec", hosts.namespaces[1], *mrc)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def conform(hosts: BackToBack, *options: str) -> subprocess.CompletedProcess[str]:
    with conforming(hosts, *options) as kit:
        printed, problem = kit.communicate()
    return subprocess.CompletedProcess(kit.args, kit.returncode, printed, problem)


def test_an_agent_keeps_every_rule(hosts: BackToBack, tmp_path: Path) -> None:
    results = tmp_path / "results"
    done = conform(hosts, "--agent", str(hosts.agents[0].socket), "--seeds", "1", "--results", str(results))
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "of 41 rules kept" in done.stdout
    verdicts = json.loads((results / "verdicts.json").read_text())
    assert all(verdict["packets"] for verdict in verdicts)
    assert [verdict for verdict in verdicts if not verdict["kept"] and verdict["rule"] not in TIMED] == []
    assert {path.name for path in results.glob("*.pcapng")} == {verdict["capture"] for verdict in verdicts}


def test_a_program_speaks_for_the_nic(hosts: BackToBack) -> None:
    program = f"{sys.executable} {ROOT / 'examples' / 'conform_application.py'} {hosts.agents[0].socket}"
    done = conform(hosts, "--application", program, "--rule", "R2.3", "--rule", "R2.7", "--rule", "R2.4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 rules kept" in done.stdout


def test_a_broken_rule_is_the_exit_status(hosts: BackToBack, tmp_path: Path) -> None:
    script = tmp_path / "mine.script"
    script.write_text("rule R2.8\ntitle nobody sends this\n< data psn=0 a\n> sack cack=5 within 50ms\n")
    done = conform(hosts, "--agent", str(hosts.agents[0].socket), "--script", str(script), "--seeds", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN R2.8   nobody sends this (mine)" in done.stdout
    assert "line 4: > sack cack=5 within 50ms: none came within 50 ms; the last of this kind: sack " in done.stdout


def test_an_agent_that_is_killed_breaks_no_rule(hosts: BackToBack, tmp_path: Path) -> None:
    agent = hosts.agents[0]
    with conforming(hosts, "--agent", str(agent.socket), "--results", str(tmp_path)) as kit:
        assert kit.stdout is not None
        first = kit.stdout.readline()
        agent.kill()
        printed, problem = kit.communicate()
    agent.close()
    hosts.start(0)
    assert kit.returncode == 3
    assert "BROKEN" not in first + printed
    assert "is gone" in problem
    assert "Traceback" not in problem
    assert json.loads((tmp_path / "verdicts.json").read_text())


def test_a_missing_interface_is_named(hosts: BackToBack) -> None:
    done = conform(hosts, "--interface", "eth99", "--agent", str(hosts.agents[0].socket))
    assert done.returncode == 3
    assert "there is no network interface eth99 here" in done.stderr
