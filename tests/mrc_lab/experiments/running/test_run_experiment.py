"""Whether a backend can do what a file wants is known before anything starts."""

import subprocess
import sys

import pytest

from mrc_lab.cli.main import run
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.running import emulated_backend
from mrc_lab.experiments.running.run_experiment import run_experiment

LAST_CANNOT = """\
fabric: {planes: 1, t0: 2, t1: 2, hosts: 4}
workload: {kind: write_bw, pairs: h1>h3}
duration: 60us
variants:
  - name: can
  - name: cannot
    faults: [{kind: reordering, at: 1us, link: h1@p0, hold: 1us, probability: 1%}]
"""


def test_no_case_starts_when_one_cannot_run(monkeypatch):
    begun = []
    monkeypatch.setattr(emulated_backend, "emulated_backend", lambda case, *_: begun.append(case.name))
    with pytest.raises(ExperimentError, match="line 7: emulation cannot make the fault reordering"):
        run_experiment(load_text(LAST_CANNOT), "emulation", 1)
    assert begun == []


def test_check_includes_the_backends_limits(tmp_path, capsys):
    file = tmp_path / "trial.yaml"
    file.write_text(LAST_CANNOT)
    assert run(["run", str(file), "--check"]) == 0
    assert run(["run", str(file), "--check", "--backend", "emulation"]) == 3
    assert "cannot make the fault reordering" in capsys.readouterr().err


def test_the_old_option_is_accepted_with_a_note(tmp_path, capsys):
    file = tmp_path / "trial.yaml"
    file.write_text(LAST_CANNOT)
    assert run(["run", str(file), "--check", "--world", "emulation"]) == 3
    assert "Note: --world is now --backend." in capsys.readouterr().err
    assert run(["run", str(file), "--check", "--world", "sim", "--backend", "emulation"]) == 2
    assert "disagree" in capsys.readouterr().err
    assert run(["run", str(file), "--check", "--world", "sim", "--backend", "sim"]) == 0


def test_simulation_imports_nothing_that_only_emulation_needs():
    code = "import mrc_lab.experiments.running.simulated_backend, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"finsy", "grpc", "mininet"} & set(done.stdout.split())


def test_an_unknown_link_to_capture_is_refused_before_anything_starts(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mrc_lab.experiments.running.run_experiment.run_case", lambda *_: pytest.fail("it began"))
    file = tmp_path / "trial.yaml"
    file.write_text(LAST_CANNOT)
    for more in ([], ["--check"]):
        assert run(["run", str(file), "--results", str(tmp_path / "r"), "--capture", "h1@p7", *more]) == 3
        printed = capsys.readouterr().err
        assert "--capture: " in printed
        assert "h1@p7" in printed
        assert "Traceback" not in printed
