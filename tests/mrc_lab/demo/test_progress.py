import io

from rich.console import Console

from mrc_lab.demo.progress import Progress, line
from tests.mrc_lab.demo.records import fault, record


def test_the_progress_line_shows_step_loss_paths_and_faults():
    run = record("mrc", [(1000, 1100), (1100, 1200)], planned=50, finished=False)
    text = line(run)
    assert "mrc  step    2/50" in text
    assert "loss 1.0000" in text
    assert "paths in use 28/32" in text
    assert "DOWN" not in text
    run.faults.append(fault("t0-0:t1-1@p0", 1150, None))
    assert "DOWN t0-0:t1-1@p0" in line(run)
    assert "waiting for 2.5 s" in line(run, waiting_s=2.5)
    run.faults[0].link_up_ns = 1
    assert "DOWN" not in line(run)


def test_the_progress_line_before_the_first_step():
    assert line(record("roce", planned=10, finished=False)).startswith("roce step    0/10")


def test_without_a_terminal_progress_is_plain_and_sparse():
    out = io.StringIO()
    run = record("mrc", [(1000, 1100)], planned=9, finished=False)
    with Progress(Console(file=out, force_terminal=False)) as progress:
        for _ in range(100):
            progress.progress(run)
        progress.mark(run, "t0-0:t1-1@p0 cut after step 3")
    assert out.getvalue().count("step") == 2
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_the_progress_line_is_updated():
    out = io.StringIO()
    with Progress(Console(file=out, force_terminal=True, width=100, _environ={"TERM": "xterm"})) as progress:
        progress.progress(record("mrc", [(1000, 1100)], planned=9, finished=False))
        progress.mark(record("mrc"), "cut")
    assert "\x1b" in out.getvalue()
    assert "step    1/9" in out.getvalue()
