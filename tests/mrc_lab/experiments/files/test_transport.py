"""What an experiment's transport settings become in a run."""

import pytest

from mrc_host import config
from mrc_lab.experiments.files.transport import settings_given
from tests.mrc_lab.experiments.running.cases import case_of

WRITE = "{kind: write_bw, pairs: h1>h3, message: 64K}"


@pytest.mark.parametrize(
    ("written", "given"),
    [
        ("{}", {}),
        ("{congestion: fixed}", {"congestion": "fixed"}),
        ("{type: rc, congestion: dcqcn}", {"rc_congestion": "dcqcn"}),
        ("{spraying: oblivious}", {"spraying": "oblivious"}),
        ("{spraying: reactive, settings: {base_rtt: 9us}}", {"spraying": "reactive", "base_rtt": 9_000}),
    ],
)
def test_transport_settings_are_read_from_the_file(written, given):
    assert settings_given(case_of(WRITE, transport=written).transport) == given


def test_every_setting_that_is_a_time_is_written_with_its_unit():
    """Those that may last an hour, which no number may."""
    times = [name for name, (_, most) in config._RANGES.items() if most == config._HOUR]
    assert "rto_low" in times
    written = ", ".join(f"{name}: 2ms" for name in times)
    given = settings_given(case_of(WRITE, transport=f"{{settings: {{{written}}}}}").transport)
    assert given == dict.fromkeys(times, 2_000_000)
