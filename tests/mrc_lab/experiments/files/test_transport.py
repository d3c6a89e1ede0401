"""What an experiment's transport settings become in a run."""

import pytest

from mrc_host import config
from mrc_lab.errors import FileError
from mrc_lab.experiments.files.transport import attributes_given, settings_given
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


@pytest.mark.parametrize(("written", "mask"), [("[0]", 0b01), ("[1, 0, 1]", 0b11), ("[1]", 0b10)])
def test_planes_become_a_mask(written, mask):
    (tenant,) = case_of(WRITE, transport=f"{{planes: {written}}}").tenants
    assert attributes_given(tenant) == {"planes": mask}


@pytest.mark.parametrize(
    ("transport", "problem"),
    [
        ("{planes: [0, 2]}", "line 5: transport.planes: the fabric has no plane 2: its planes are 0 to 1"),
        ("{planes: []}", "line 5: transport.planes: needs at least 1, but has 0"),
        ("{planes: [-1]}", "line 5: transport.planes[0]: is -1, but must be at least 0"),
        ("{planes: [1], evs: 4}", "line 5: transport.evs: chooses from all planes: leave it out, or planes"),
        ("{planes: [1], paths: 2, ev_choice: coordinated}", "line 5: transport.ev_choice: chooses from all planes"),
        ("{attributes: {planes: 1}}", "line 5: transport.attributes.planes: unknown key"),
    ],
)
def test_planes_that_mean_nothing_are_refused(transport, problem):
    with pytest.raises(FileError) as found:
        case_of(WRITE, transport=transport)
    assert problem in str(found.value)
