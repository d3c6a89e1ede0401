import pytest

from experiments.errors import ExperimentError
from experiments.fabrics import find_fabric
from experiments.perf import pair, perftest
from tests.experiments.perf.test_hosts import up

__all__ = ["up"]


@pytest.mark.parametrize(
    ("here", "words", "result"),
    [
        ("h3", "", "-d RUN/h3.sock -p unix:RUN/h3.write_bw"),
        ("h1", "h3", "-d RUN/h1.sock unix:RUN/h3.write_bw"),
        ("h1", "-s 64 h3 -a", "-d RUN/h1.sock -s 64 unix:RUN/h3.write_bw -a"),
        (None, "-d h1 h3", "-d RUN/h1.sock unix:RUN/h3.write_bw"),
        (None, "--ib-dev h3 -q 2", "--ib-dev RUN/h3.sock -q 2 -p unix:RUN/h3.write_bw"),
        (None, "-d /x/h1.sock -p unix:/tmp/x", "-d /x/h1.sock -p unix:/tmp/x"),
        (None, "-d /x/h1.sock", "-d /x/h1.sock"),
        ("h1", "fd00:6d:7263:1:1::1 -n 5", "-d RUN/h1.sock unix:RUN/h3.write_bw -n 5"),
        ("h1", "-p 12345", "-d RUN/h1.sock -p 12345"),
        ("h1", "unix:/tmp/meet", "-d RUN/h1.sock unix:/tmp/meet"),
        ("h1", "127.0.0.1 -p 99", "-d RUN/h1.sock 127.0.0.1 -p 99"),
    ],
)
def test_hosts_names_stand_for_sockets(up, here, words, result):
    run = up("one")
    assert perftest.translate("write_bw", words.split(), run, here) == result.replace("RUN", str(run.path)).split()


def test_outside_a_host_the_nic_must_be_named(up):
    with pytest.raises(ExperimentError, match="whose NIC"):
        perftest.translate("write_lat", ["h3"], up("one"), None)


def test_of_several_fabrics_one_is_chosen(up, monkeypatch, tmp_path):
    up("one")
    two, asked = up("two"), []
    monkeypatch.setattr(perftest, "find_fabric", lambda name: find_fabric(name, tmp_path))
    monkeypatch.setitem(perftest.TOOLS, "write_bw", lambda words: asked.extend(words) or 0)
    assert perftest.run_tool("write_bw", ["-d", "h1", "--fabric", "two", "h3"]) == 0
    assert asked == ["-d", f"{two.path}/h1.sock", f"unix:{two.path}/h3.write_bw"]


def test_what_cannot_be_started_is_one_sentence(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(perftest, "this_host", lambda: None)

    def nothing(name):
        raise ExperimentError("No fabric is up.", "Start one.")

    monkeypatch.setattr(perftest, "find_fabric", nothing)
    assert perftest.run_tool("write_bw", ["h3"]) == 3
    assert capsys.readouterr().err == "write_bw: No fabric is up.\nStart one.\n"


def test_a_device_of_another_kind_is_one_sentence(up):
    with pytest.raises(ExperimentError, match=r"has no device 'mlx5_0': give -d one of h1, h2"):
        perftest.translate("write_bw", ["-d", "mlx5_0", "h3"], up("one"), None)


def test_two_hosts_are_both_ends(up, monkeypatch, tmp_path):
    one, ran = up("one"), []
    monkeypatch.setattr(perftest, "find_fabric", lambda name: find_fabric(name, tmp_path))
    monkeypatch.setattr(pair, "run_pair", lambda *arguments: ran.append(arguments[:5]) or 0)
    assert perftest.run_tool("write_bw", ["--fabric", "one", "h1", "h3", "-n", "5"]) == 0
    assert ran == [("write_bw", one, "h1", "h3", ["-n", "5"])]
