"""What Tab offers at the prompt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mrc_host.tools import write_bw, write_lat
from mrc_host.verbs_types import QpType
from mrc_lab.perf import ping
from mrc_lab.perf.__main__ import run as run_perf
from mrc_lab.perf.flag_completion import TOOLS
from mrc_lab.prompt.command_help import COMMANDS, Word
from mrc_lab.prompt.completion import first_word, further_word
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos(planes=2, t0=2, t1=2, hosts=4)
TABLES = ["usid_local", "usid_next", "ecmp_seed"]


def complete(line: str) -> list[str]:
    """What Tab offers at the end of a line."""
    before, _, text = line.rpartition(" ")
    return further_word(FABRIC, TABLES, before.split(), text) if before else first_word(FABRIC, text)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("wri", ["write", "write_bw", "write_lat"]),
        ("h", ["help", "h1", "h2", "h3", "h4"]),
        ("write h", ["h1", "h2", "h3", "h4"]),
        ("write h1 h3", ["h3"]),
        ("write h1 h3 6", []),
        ("links h4", ["h4@p0", "h4@p1"]),
        ("links t0-0:t1-1", ["t0-0:t1-1@p0", "t0-0:t1-1@p1"]),
        ("links t0-0:t1-*", ["t0-0:t1-*@p0", "t0-0:t1-*@p*", "t0-0:t1-*@p1"]),
        ("fault t1-*", ["t1-*@p0", "t1-*@p1", "t1-*@p*"]),
        ("fault c", ["clear"]),
        ("fault clear ", ["all", "owner", "link"]),
        ("fault t0-0:t1-1@p0 d", ["delay", "down"]),
        ("fault t1-1@p0 b", ["blackhole"]),
        ("fault t1-1@p0 lo", []),
        ("fault h1@p0 l", ["loss"]),
        ("fault h1@p0 loss 1% h", ["h1"]),
        ("fault path 7 100% h", ["h1", "h2", "h3", "h4"]),
        ("tables t0-1", ["t0-1@p0", "t0-1@p1"]),
        ("tables t0-0@p0 usid", ["usid_local", "usid_next"]),
        ("queues t1-0@p0 ", ["reset", "--json"]),
        ("queues t1-0@p0 reset ", ["--json"]),
        ("capture st", ["stop"]),
        ("capture stop t0-0:t1-0", ["t0-0:t1-0@p0", "t0-0:t1-0@p1"]),
        ("map ", ["rate", "deny", "allow", "stop", "--json"]),
        ("link t0-0@p0 t1-0@p0 ", ["up", "down"]),
        ("link h1 t0-0", ["t0-0@p0", "t0-0@p1"]),
        ("switch t0-0@p1 st", ["start", "stop"]),
        ("time wri", ["write", "write_bw", "write_lat"]),
        ("time write h1 h3", ["h3"]),
        ("help qu", ["queues", "quit"]),
        ("h1 ping h", ["h1", "h2", "h3", "h4"]),
        ("write_bw h", ["h1", "h2", "h3", "h4"]),
        ("write_bw h1 h3 --ib", ["--ib-dev"]),
        ("write_bw h1 h3 -c ", [kind.name for kind in QpType]),
        ("write_bw h1 h3 -c M", ["MRC"]),
        ("write_bw h1 h3 -s ", []),
        ("write_bw h1 h3 -s 64K --report_", ["--report_gbits"]),
        ("write_bw h1 h3 --rdma", []),  # refused
        ("write_lat h1 h3 --out_json", ["--out_json_file", "--out_json"]),
        ("all_reduce_perf --out", ["--output_file"]),
        ("all_reduce_perf -b 64K --transport ", [kind.value for kind in QpType]),
        ("all_reduce_perf --hosts h1,h3,", ["h1,h3,h2", "h1,h3,h4"]),
        ("all_reduce_perf --hosts h1,h3", ["h1,h3"]),
        ("all_reduce_perf --fab", []),  # the prompt's own
        ("allreduce 1M --tr", ["--transport"]),
        ("mrc_ping --pl", ["--plane"]),
        ("mrc_ping h1 h3 --q", ["--quiet"]),
        ("time write_bw h1 h3 -c R", ["RC", "RC_SR", "RC_AR"]),
        ("nodes ", []),
        ("nonsense t1-0", ["t1-0@p0", "t1-0@p1"]),
    ],
)
def test_tab_offers_valid_next_words(line: str, offered: list[str]) -> None:
    assert complete(line) == offered


@pytest.mark.parametrize("tool", TOOLS)
def test_completed_flags_match_the_tools_help(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    entry = COMMANDS[tool]
    hosts = " h1 h3" if entry.words[0] is Word.HOST else " 64K" if tool == "allreduce" else ""
    test, arguments = {"allreduce": "all_reduce_perf"}.get(tool, tool), ["-h"]
    with pytest.raises(SystemExit):
        {"write_bw": write_bw.main, "write_lat": write_lat.main, "mrc_ping": ping.run}.get(
            test, lambda words: run_perf(test, words)
        )(arguments)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  -")]
    shown = {word for line in lines for word in re.findall(r"(?:^|, )(--?[A-Za-z][\w-]*)", line.split("  ")[0])}
    assert set(complete(f"{tool}{hosts} -")) == shown - {"--fabric"}


def test_file_arguments_of_flags_are_completed(tmp_path: Path) -> None:
    (tmp_path / "out.json").touch()
    assert complete(f"write_bw h1 h3 --out_json_file {tmp_path}/o") == [f"{tmp_path}/out.json"]
    assert complete(f"all_reduce_perf -J {tmp_path}/o") == [f"{tmp_path}/out.json"]


def test_files_and_folders_are_completed(tmp_path: Path) -> None:
    (tmp_path / "trunk.pcapng").touch()
    (tmp_path / "traces").mkdir()
    (tmp_path / "[odd]").touch()
    assert complete(f"capture h1@p0 {tmp_path}/tr") == [f"{tmp_path}/traces/", f"{tmp_path}/trunk.pcapng"]
    assert complete(f"source {tmp_path}/[") == [f"{tmp_path}/[odd]"]
