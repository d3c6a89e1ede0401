"""The OCP's MRC API between hosts of a fabric: a C program of our own for every function, and the OCP's own programs.

The latter need a checkout of the OCP's repository, whose path is in MRC_H_PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("mininet")

from mrc_host import verbs
from mrc_host.libibverbs import build
from mrc_lab.fabric.emulation import EmulatedWorld, running
from tests.integration.names import own
from tests.mrc_host.libibverbs.build_program import MRC_PROGRAM, build_program
from tests.waiting import until
from topologies.clos import multi_plane_clos
from topologies.emulation import host_environment, namespaces

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(
        not build.is_current(), reason=f"libmrc is not built: {build.missing() or 'python -m mrc_host.libibverbs'}"
    ),
]

OCP = os.environ.get("MRC_H_PATH", "")
needs_the_ocps_programs = pytest.mark.skipif(
    not OCP, reason="MRC_H_PATH is not set: the path of a checkout of the OCP's repository of MRC's API"
)

NAME = own("libmrc")
CASES = (
    "device", "writes", "attributes", "hints", "order", "wrong", "channel", "failure", "threads", "control_device",
    "ports", "plane_ports", "explicit", "generated", "cc", "probes", "control_wrong", "controllers",
)  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[EmulatedWorld]:
    with running(multi_plane_clos(NAME, planes=2, t0=2, t1=2, hosts=4, rate_bps=100_000_000)) as world:
        yield world


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_program(tmp_path_factory, MRC_PROGRAM)


def pairs_of(world: EmulatedWorld, host: str) -> int:
    """How many queue pairs its NIC has."""
    with verbs.open(world.emulation.socket(host)) as context:
        return context.hw_counters()["queue_pairs"]


def start(world: EmulatedWorld, host: str, *command: str, **environment: str) -> subprocess.Popen[str]:
    """Start a command in a host, as ``mrc exec`` does."""
    run = world.emulation.run
    known = {**os.environ, **host_environment.variables(run, host), **environment}
    words = [*namespaces.enter_host(run.shells()[host].pid), *command]
    return subprocess.Popen(words, env=known, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("case", CASES)
def test_the_api_behaves_as_programs_in_c_expect(world: EmulatedWorld, program: Path, case: str) -> None:
    words = [program, case, world.emulation.socket("h2"), world.emulation.socket("h4")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert pairs_of(world, "h2") == pairs_of(world, "h4") == 0


def test_events_of_entropy_values_follow_a_link_that_is_cut(world: EmulatedWorld, program: Path) -> None:
    words = [program, "ev_events", world.emulation.socket("h2"), world.emulation.socket("h4")]
    link = "t0-0:t1-1@p1"
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running_program:

        def says(word: str) -> None:
            """It prints `word`, or has ended: then why is in the message."""
            assert running_program.stdout is not None
            line = running_program.stdout.readline()
            assert line == f"{word}\n", line + running_program.communicate()[1]

        try:
            says("cut")
            world.link_down(link)
            says("restore")
            world.link_up(link)
            _, said = running_program.communicate()
        finally:
            world.link_up(link)
            running_program.kill()
    assert running_program.returncode == 0, said


def test_the_controllers_half_needs_the_controllers_socket(world: EmulatedWorld, program: Path, tmp_path: Path) -> None:
    alone = tmp_path / "h2.sock"  # no h2.control.sock beside it
    alone.symlink_to(world.emulation.socket("h2"))
    words = [program, "application", alone, world.emulation.socket("h4")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_its_queue_pairs_are_mrc_whatever_the_environment_says(world: EmulatedWorld, program: Path) -> None:
    words = [program, "attributes", world.emulation.socket("h2"), world.emulation.socket("h4")]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "MRC_QP_TYPE": "rc"})
    assert done.returncode == 0, done.stderr  # RC has no hints and no MPR


def test_a_program_that_is_killed_leaves_nothing_in_its_agents(world: EmulatedWorld, program: Path) -> None:
    words = [program, "linger", world.emulation.socket("h2"), world.emulation.socket("h4")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running_program:
        assert running_program.stdout is not None
        try:
            assert running_program.stdout.readline() == "lingers\n"
            assert pairs_of(world, "h2") == 1
        finally:
            running_program.kill()
    until(lambda: pairs_of(world, "h2") == pairs_of(world, "h4") == 0, "the agents to release everything")


@pytest.fixture(scope="module")
def ocp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The OCP's repository, its example and test built by their own makefiles."""
    copy = tmp_path_factory.mktemp("ocp") / "api"
    shutil.copytree(OCP, copy, ignore=shutil.ignore_patterns(".git"))
    libraries = build.folder()
    subprocess.run(
        ["make", "-C", "examples/benchmark", "mrc_example", f"MRC_LIB_DIR={libraries}"], cwd=copy, check=True
    )
    subprocess.run(["make", "-C", "test"], cwd=copy, check=True)
    return copy


@needs_the_ocps_programs
def test_the_ocps_test_opens_the_nic(world: EmulatedWorld, ocp: Path) -> None:
    with start(world, "h1", str(ocp / "test" / "mrc_test"), "-d", "mrc0") as running_program:
        assert running_program.communicate()[0] == "Hello MRC!\n"
    assert running_program.returncode == 0


@needs_the_ocps_programs
def test_the_ocps_example_measures_bandwidth_between_hosts(world: EmulatedWorld, ocp: Path) -> None:
    command = [str(ocp / "examples" / "benchmark" / "mrc_example"), "-d", "mrc0", "-n", "100", "-s", "65536", "-w", "5"]
    address = world.emulation.host("h1").cmd("getent", "hosts", "h3").split()[0]
    before = arrived(world, "h3")
    with start(world, "h3", *command, MRC_LOG_LEVEL="DEBUG") as server:
        try:
            until(lambda: "18185" in world.emulation.host("h3").cmd("ss", "-lnt"), "the server to listen")
            with start(world, "h1", *command, address) as client:
                try:
                    printed, other = client.communicate()[0], server.communicate()[0]
                finally:
                    client.kill()
        finally:
            server.kill()
    assert (client.returncode, server.returncode) == (0, 0), printed + other
    rows = [line.split() for line in printed.splitlines() if line.strip()[:1].isdigit()]
    assert [int(row[0]) for row in rows] == [2**power for power in range(17)]
    assert other.count("Data validation passed") == 17
    assert arrived(world, "h3") - before == 17 * 106  # warm-up, iterations and the signal of each size


def arrived(world: EmulatedWorld, host: str) -> int:
    """Write requests that its NIC received."""
    with verbs.open(world.emulation.socket(host)) as context:
        return context.hw_counters()["rx_write_requests"]
