"""Which paths caused timeouts, as later answers show."""

from mrc_host.transport.timeout_attribution import TimeoutAttribution


def suspected(*packets: tuple[int, int, int]) -> TimeoutAttribution:
    """Of (PSN, path, sending time); two duplicates were known."""
    attribution = TimeoutAttribution()
    for psn, path, sent in packets:
        attribution.suspect(psn, path, sent, 2, 1000)
    return attribution


def test_a_much_later_sack_showing_a_packet_missing_confirms_its_path() -> None:
    attribution = suspected((10, 3, 100), (11, 4, 100), (12, 5, 900))
    confirmed = attribution.shown(10, 11, 0b01, 500)
    assert [(s.path, s.sent) for s in confirmed] == [(3, 100)], "PSN 11 arrived, and 12 was sent too late to show it"
    assert attribution.shown(10, 11, 0b01, 500) == []
    assert [s.path for s in attribution.shown(10, 11, 0, 5000)] == [4, 5]
    assert not attribution.waiting()


def test_packets_outside_the_bitmap_stay_undecided() -> None:
    attribution = suspected((100, 3, 100))
    assert attribution.shown(10, 11, 0, 5000) == []
    assert attribution.waiting()


def test_an_earlier_transmission_that_arrives_clears_the_path() -> None:
    attribution = suspected((10, 3, 100))
    attribution.clear(10)
    assert attribution.shown(10, 11, 0, 5000) == []
    attribution.answered(10)
    assert attribution.counted(2) == []


def test_without_counted_duplicates_only_the_retransmission_arrived() -> None:
    for duplicates, paths in ((2, [3]), (3, [])):
        attribution = suspected((10, 3, 100))
        attribution.acknowledged(10)
        attribution.answered(10)
        assert [s.path for s in attribution.counted(duplicates)] == paths
        assert attribution.counted(0) == [], "decided once"


def test_the_first_path_of_a_packet_is_suspected() -> None:
    attribution = suspected((10, 3, 100), (10, 4, 2000))
    assert [s.path for s in attribution.shown(10, 11, 0, 5000)] == [3]


def test_timeouts_of_paths_are_counted_until_something_is_acknowledged() -> None:
    attribution = suspected((10, 3, 100), (11, 3, 150), (12, 4, 100))
    assert not attribution.all_timed_out((3, 4)), "what was sent before the timeout was noticed is one"
    attribution.suspect(10, 3, 1000, 2, 2000)
    attribution.suspect(12, 4, 1500, 2, 2000)
    assert attribution.all_timed_out((3, 4))
    assert not attribution.all_timed_out((3, 4, 5))
    attribution.progress()
    assert not attribution.all_timed_out((3,))
