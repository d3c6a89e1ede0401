from types import SimpleNamespace

import pytest

pytest.importorskip("mininet")

from mrc_lab.perf import ping
from mrc_lab.perf.__main__ import TESTS
from mrc_lab.perf.perftest import TOOLS
from mrc_lab.prompt.perf_commands import PerfCommands
from mrc_lab.prompt.prompt import Prompt


def test_perf_commands_and_prompt_share_no_attribute_names():
    shared = set(vars(PerfCommands)) & set(vars(Prompt))
    assert {name for name in shared if not name.startswith("__")} == set()


def test_every_tool_is_a_prompt_command_with_help():
    for name in (*TESTS, *TOOLS, ping.NAME):
        assert name in getattr(PerfCommands, f"do_{name}").__doc__.lower()


@pytest.mark.parametrize(("tool", "line"), [
    ("write_bw", "h1 h3 -s 65536 &"), ("write_lat", "h1 h3&"), ("mrc_ping", "h1 h3 &"), ("all_reduce_perf", "&"),
])  # fmt: skip
def test_a_tool_in_the_background_is_refused_with_what_to_do(tool: str, line: str) -> None:
    commands = PerfCommands.__new__(PerfCommands)
    printed: list[str] = []
    commands._world = SimpleNamespace(fabric=SimpleNamespace(name="lab"))  # type: ignore[assignment]
    commands._echo = printed.append
    commands.failed = False
    getattr(commands, f"do_{tool}")(line)
    (text,) = printed
    assert commands.failed
    assert text.startswith(f"{tool} runs in the foreground here: leave out '&'")
    assert f"mrc shell lab -c {repr(' '.join((tool, line.strip('& ')))) if ' ' in line.strip('& ') else ''}" in text
