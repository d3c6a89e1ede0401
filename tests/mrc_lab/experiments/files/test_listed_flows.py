"""Checks of an experiment that names a connection matrix of htsim."""

import pytest

from mrc_lab.errors import FileError
from mrc_lab.experiments.files import load_file

FAILING = "Nodes 8\nConnections 1\nFailures 1\n0->5 start 0 size 10\nfailure switch_type AGG switch_id 0 link_id 0\n"
THREE = "{planes: 1, pods: 2, t0: 2, t1: 2, t2: 4, hosts: 8, rate: 100G}"
DOWN = "{kind: link_down, link: 't1-0:t2-0@p0', at: 0us}"


def load(folder, matrix, fabric="{planes: 1, t0: 2, t1: 2, hosts: 8, rate: 100G}", faults="[]", keys="file: x.cm"):
    (folder / "x.cm").write_text(matrix)
    text = f"fabric: {fabric}\nworkload: {{kind: htsim, {keys}}}\nfaults: {faults}\nduration: 1ms\n"
    (folder / "x.yaml").write_text(text)
    return load_file(folder / "x.yaml")


def test_failed_links_must_be_faults_too(tmp_path):
    assert load(tmp_path, FAILING, THREE, f"[{DOWN}]").cases[0].workload.file.matrix.failures
    for faults in ("[]", f"[{DOWN.replace('0us', '5us')}]", f"[{DOWN.replace('at', 'until: 9us, at')}]"):
        with pytest.raises(FileError, match=r"x.cm, line 5: link t1-0:t2-0@p0 has failed: say so in faults"):
            load(tmp_path, FAILING, THREE, faults)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ("Nodes 9\nConnections 1\n0->5 start 0 size 10\n", "x.cm has 9 nodes, but the fabric has 8 hosts"),
        ("Nodes 8\nConnections 1\n0->5 start 1e9 size 10\n", "line 3: the flow begins at 1 ms, but the run lasts 1 ms"),
        ("Nodes 8\nConnections 1\n0->9 start 0 size 10\n", "line 2: workload.file: .*x.cm, line 3: there is no node 9"),
        (FAILING, "htsim fails links from T1s to T2s only"),
    ],
)
def test_what_the_fabric_or_the_run_has_no_room_for_is_refused(tmp_path, matrix, message):
    with pytest.raises(FileError, match=message):
        load(tmp_path, matrix)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FileError, match=r"y.cm cannot be read: No such file"):
        load(tmp_path, FAILING, keys="file: y.cm")


def test_entropy_values_are_not_coordinated_for_listed_flows(tmp_path):
    matrix = "Nodes 8\nConnections 1\n0->5 start 0 size 10\n"
    (tmp_path / "x.cm").write_text(matrix)
    text = "fabric: {planes: 1, t0: 2, t1: 2, hosts: 8}\nworkload: {kind: htsim, file: x.cm}\nduration: 1ms\n"
    (tmp_path / "x.yaml").write_text(text + "transport: {ev_choice: coordinated, paths: 2}\n")
    with pytest.raises(FileError, match="not for other types, kinds flows and htsim"):
        load_file(tmp_path / "x.yaml")
