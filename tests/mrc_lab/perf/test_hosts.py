import contextlib
import os
import socket
from pathlib import Path

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.find_fabric import find_fabric, this_host
from mrc_lab.perf.hosts import find_agents, host_named
from topologies.addressing import kernel_address, nic_address
from topologies.clos import multi_plane_clos
from topologies.emulation.namespaces import cookie
from topologies.emulation.run_directory import RunDirectory
from topologies.loader import dump_text


@pytest.fixture
def up(tmp_path):
    """Makes a fabric look as if it were up."""
    sockets, locks = [], contextlib.ExitStack()

    def make(name, hosts=4):
        fabric = multi_plane_clos(name, planes=2, t0=2, t1=2, hosts=hosts)
        run = RunDirectory(name, tmp_path)
        locks.enter_context(run.locked())
        run.fabric_file.write_text(dump_text(fabric))
        for nic in fabric.nic_names:
            sockets.append(socket.socket(socket.AF_UNIX))
            sockets[-1].bind(str(run.host_socket(nic)))
        return run

    yield make
    locks.close()
    for each in sockets:
        each.close()


def test_the_only_running_fabric_is_the_default(up, tmp_path):
    run = up("one")
    (tmp_path / "half-made").mkdir()
    assert find_fabric(None, tmp_path) == run
    assert find_fabric("one", tmp_path) == run


def test_without_a_fabric_the_hint_says_how_to_start_one(tmp_path):
    with pytest.raises(ExperimentError, match="No fabric is up") as error:
        find_fabric(None, tmp_path / "nothing")
    assert "sudo make run" in error.value.hint


def test_with_several_fabrics_one_must_be_named(up, tmp_path):
    up("one")
    up("two")
    with pytest.raises(ExperimentError, match="Several fabrics") as error:
        find_fabric(None, tmp_path)
    assert "one, two" in error.value.hint
    with pytest.raises(ExperimentError, match="three is not up"):
        find_fabric("three", tmp_path)


def test_hosts_are_found_by_name_and_address():
    fabric = multi_plane_clos("one", planes=2, t0=2, t1=2, hosts=4)
    h3 = fabric.nic("h3")
    addresses = [nic_address(fabric, h3), kernel_address(fabric, h3, 0), kernel_address(fabric, h3, 1)]
    for word in ("h3", *map(str, addresses)):
        assert host_named(fabric, word) == "h3"
    for word in ("h9", "fd00::1", "10.0.0.1", "-n", "64K"):
        assert host_named(fabric, word) is None


def test_agents_are_those_of_all_hosts_or_of_the_named_ones_in_order(up):
    run = up("one")
    assert [agent.host for agent in find_agents(run, None)] == ["h1", "h2", "h3", "h4"]
    agents = find_agents(run, ("h3", "h1"))
    assert [(agent.host, agent.path) for agent in agents] == [
        ("h3", run.path / "h3.sock"),
        ("h1", run.path / "h1.sock"),
    ]


def test_unknown_hosts_and_missing_agents_are_reported(up):
    run = up("one")
    with pytest.raises(ExperimentError, match="no host h9") as error:
        find_agents(run, ("h9",))
    assert "h1, h2, h3, h4" in error.value.hint
    run.host_socket("h2").unlink()
    with pytest.raises(ExperimentError, match="agent of h2"):
        find_agents(run, None)


def test_a_process_knows_its_host(up, tmp_path):
    up("other")
    run = up("one")
    assert this_host(tmp_path) is None
    argv = Path("/proc/self/cmdline").read_bytes().split(b"\0")[:-1]
    run.record("shell-h3", os.getpid(), [os.fsdecode(word) for word in argv], namespace=cookie())
    assert this_host(tmp_path) == (run, "h3")
    assert find_fabric(None, tmp_path) == run  # although two are up
