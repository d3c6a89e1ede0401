"""What an experiment's transport settings become in a run."""

import pytest

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
