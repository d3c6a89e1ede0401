import re
from pathlib import Path

from mrc_lab.perf.__main__ import TESTS

PAGE = (Path(__file__).parents[3] / "docs" / "collectives.md").read_text()


def test_the_example_on_the_page_runs_without_errors(capsys):
    example, *_ = re.findall(r"```python anywhere\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/collectives.md", "exec"), {})
    speed, unit, wrong, _ = capsys.readouterr().out.split()
    assert 20 < float(speed) < 50  # GB/s; four ports of 100 Gb/s
    assert (unit, wrong) == ("GB/s,", "0")


def test_every_tool_is_on_the_page_and_a_console_script():
    scripts = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    for test in (*TESTS, "write_bw", "write_lat", "mrc_ping"):
        assert f"`{test}`" in PAGE
        assert re.search(rf'^{test} = "mrc_lab\.perf\.', scripts, re.MULTILINE)
