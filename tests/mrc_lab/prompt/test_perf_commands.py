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
