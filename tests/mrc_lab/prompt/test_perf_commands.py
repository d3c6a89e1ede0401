import pytest

pytest.importorskip("mininet")

from mrc_lab.perf import ping
from mrc_lab.perf.__main__ import TESTS
from mrc_lab.perf.perftest import TOOLS
from mrc_lab.prompt.perf_commands import PerfCommands
from mrc_lab.prompt.prompt import Prompt


def test_the_commands_and_the_prompt_do_not_stand_in_each_others_way():
    shared = set(vars(PerfCommands)) & set(vars(Prompt))
    assert {name for name in shared if not name.startswith("__")} == set()


def test_every_tool_is_a_command_with_help():
    for name in (*TESTS, *TOOLS, ping.NAME):
        assert name in getattr(PerfCommands, f"do_{name}").__doc__.lower()
