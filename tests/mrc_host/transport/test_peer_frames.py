"""What is built once for all frames to a NIC."""

from mrc_host.transport.peer_frames import CONTROL, DATA
from tests.mrc_host.transport.far_end import FarEnd


def test_there_is_one_template_for_each_value_and_class() -> None:
    frames = FarEnd(uplinks=64).peer.frames
    made = [frames.template(index, kind) for kind in (DATA, CONTROL) for index in (5, 0, 127)]
    assert len(set(map(id, made))) == 6
    assert [frames.template(index, kind) for kind in (DATA, CONTROL) for index in (5, 0, 127)] == made
