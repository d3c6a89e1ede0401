"""The one path of an RC queue pair by itself: its port and source port, its classes, and what a notification is."""

from __future__ import annotations

from mrc_host.transport.peer import FirstNumbers, Peer
from mrc_host.transport.roce.path import RcPath
from mrc_host.wire import headers, opcodes
from tests.models.frames import icrc, trailer
from tests.mrc_host.transport.parts import QPN, REMOTE_QPN, connection
from tests.mrc_host.transport.roce.parts import BTH, ICRC, path_of

IP = slice(14, BTH)  # with UDP
SPORT = slice(54, 56)
BECN = 0x40


def make_path(qpn: int = QPN, planes: int = 0b11) -> RcPath:
    given = connection()
    peer = Peer(given.nic, given.nic.config.destinations[0], FirstNumbers(0, 0))
    peer.paths.planes = planes
    return RcPath(given.nic, peer, qpn, REMOTE_QPN)


def data_frame(path: RcPath, size: int) -> bytes:
    """A frame of the class of data with so many bytes from the BTH on."""
    made: bytes = path._nic.datapath.frame(path.template(False), bytes(size))
    return made


def test_only_planes_reaching_the_peer_are_chosen() -> None:
    for plane in range(2):
        assert {make_path(qpn, 1 << plane).port for qpn in range(50)} == {plane}
    assert {make_path(qpn).port for qpn in range(50)} == {0, 1}


def test_a_given_source_port_is_in_every_frame_and_leaves_the_plane_as_it_was() -> None:
    given = connection()
    peer = Peer(given.nic, given.nic.config.destinations[0], FirstNumbers(0, 0))
    path = RcPath(given.nic, peer, QPN, REMOTE_QPN, 50_001)
    assert path.port == make_path().port
    frames = [path.control_frame(bytes(16)), data_frame(path, 1000)]
    assert {int.from_bytes(frame[SPORT], "big") for frame in frames} == {50_001}


def test_a_queue_pair_stays_on_its_port_without_link() -> None:
    given = connection()
    path = path_of(given)
    port, entropy = path.port, path.entropy
    given.nic.local_up &= ~(1 << port)
    assert not path.up()
    assert (path.port, path.entropy) == (port, entropy)
    given.nic.local_up |= 1 << port
    assert path.up()


def test_every_frame_has_the_same_rocev2_source_port() -> None:
    path = make_path()
    assert 49152 <= path.entropy <= 65535
    frames = [path.control_frame(bytes(16)), path.control_frame(bytes(28)), data_frame(path, 1000)]
    assert {int.from_bytes(frame[SPORT], "big") for frame in frames} == {path.entropy}


def test_data_is_ecn_capable_and_control_is_not_and_has_its_own_class() -> None:
    path = make_path()
    frames = (data_frame(path, 100), path.control_frame(bytes(100)))
    classes = [int.from_bytes(frame[14:16], "big") >> 4 & 0xFF for frame in frames]
    assert [value & 3 for value in classes] == [2, 0], "ECT(0) and not ECT"
    settings = connection().nic.settings
    assert [value >> 2 for value in classes] == [settings.dscp.no_trim, settings.dscp.control]


def test_frames_have_correct_lengths_for_any_number_of_sizes() -> None:
    """A template has those of the packet before."""
    path = make_path()
    for _ in range(2):
        for size in (*range(12, 400), 12, 12 + (1 << 8), 12 + (1 << 10), 12 + (1 << 12), 12):
            frame = data_frame(path, size)
            assert len(frame) == BTH + size + ICRC
            assert int.from_bytes(frame[18:20], "big") == 8 + size + ICRC, "IPv6: UDP and what it carries"
            assert int.from_bytes(frame[58:60], "big") == 8 + size + ICRC


def test_a_cnp_has_becn_16_reserved_bytes_and_an_icrc_excluding_becn() -> None:
    """RoCEv2 annex A17: CNP."""
    frame = make_path().notification(REMOTE_QPN)
    body = frame[BTH:-ICRC]
    assert len(body) == headers.BTH_LENGTH + 16
    assert body[0] == opcodes.RC_CNP == 0x81
    assert body[4] == BECN
    assert int.from_bytes(body[5:8], "big") == REMOTE_QPN
    assert body[headers.BTH_LENGTH :] == bytes(16)
    assert frame[-ICRC:] == trailer(icrc(frame[IP], body))
