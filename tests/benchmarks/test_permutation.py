"""The comparison with htsim, with scripts that print what htsim prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks_main
from benchmarks.sim_permutation import HOSTS, run_htsim


def script(folder: Path, text: str) -> Path:
    made = folder / "htsim_eqds"
    made.write_text(f"#!/bin/sh\n{text}\n")
    made.chmod(0o755)
    return made


def test_packets_a_second_are_what_htsim_sent_by_the_time_it_took(tmp_path):
    flows = f"i=0; while [ $i -lt {HOSTS} ]; do echo Flow $i finished at 1; i=$((i+1)); done"
    made = script(tmp_path, f'grep -q "Connections {HOSTS}" "$2" || exit 9\n{flows}\necho "New: 1000 Rtx: 3 RTS: 0"')
    assert 0 < run_htsim(made) <= 1000 / 1e-3


def test_files_that_htsim_leaves_do_not_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = script(tmp_path, f"touch idmap.txt; yes ' finished at ' | head -{HOSTS}; echo 'New: 1000 '")
    assert run_htsim(Path(made.name)) > 0
    assert [path.name for path in tmp_path.iterdir()] == [made.name]


@pytest.mark.parametrize("text", ["echo Flow 1 finished at 1; echo 'New: 5 Rtx: 0'", "echo no such option >&2; exit 1"])
def test_a_program_that_does_not_finish_all_flows_is_refused(tmp_path, text):
    with pytest.raises(RuntimeError, match=f"of {HOSTS} flows.*It printed last"):
        run_htsim(script(tmp_path, text))


def test_the_path_has_to_be_a_program(tmp_path, capsys):
    assert benchmarks_main.main(["--htsim", str(tmp_path / "none"), "sim"]) == 2
    assert "htsim_eqds" in capsys.readouterr().err
    assert benchmarks_main.main(["sim", "--htsim"]) == 2
