"""Events of NICs in words."""

from __future__ import annotations

from mrc_host.verbs_types import PathEvent, PathReason, PathState, PortEvent, QpEvent, SlowPortEvent
from mrc_lab.web.path_events import summarize

REMOTES = {17: "h3"}


def path(ev: int, new: PathState, reason: PathReason, *, time: int, lost: int | None = None) -> PathEvent:
    old = PathState.GOOD if new is not PathState.GOOD else PathState.ASSUMED_BAD
    return PathEvent(time, 17, ev, 0, old, new, reason, lost)


def test_paths_lost_together_are_one_line_with_the_time_since_the_first_loss() -> None:
    bad = PathState.ASSUMED_BAD
    events = [path(ev, bad, PathReason.LOSS, time=9_000_000 + ev, lost=1_000_000) for ev in (1, 2, 3)]
    (news,) = summarize("h1", events, REMOTES)
    assert news.text == (
        "3 paths h1 to h3 in plane 0 out of use after a lost packet, 8 ms after the first lost packet was sent"
    )
    assert (news.kind, news.at_ns) == ("paths", 9_000_001)


def test_path_that_recovers_is_reported_and_a_skipped_one_is_not() -> None:
    skipped = PathEvent(1, 17, 4, 0, PathState.GOOD, PathState.SKIP, PathReason.ECN)
    turned = PathEvent(2, 17, 4, 0, PathState.SKIP, PathState.GOOD, PathReason.ROTATION)
    back = path(5, PathState.GOOD, PathReason.PROBE, time=3)
    (news,) = summarize("h1", [skipped, turned, back], REMOTES)
    assert news.text == "1 path h1 to h3 in plane 0 back in use: probes came back"


def test_ports_and_failed_queue_pairs_are_reported_in_order() -> None:
    events = [QpEvent(30, 17, "retries exceeded"), PortEvent(10, 1, False, True), PortEvent(20, 1, False, False)]
    texts = [news.text for news in summarize("h1", events, REMOTES)]
    assert texts == ["h1@p1 is down", "queue pair 0x11 of h1 failed: retries exceeded"]


def test_unknown_queue_pair_is_named_by_its_number() -> None:
    (news,) = summarize("h1", [path(1, PathState.DENIED, PathReason.CONTROLLER, time=1)], {})
    assert news.text == "1 path h1 to queue pair 0x11 in plane 0 out of use by the controller's denylist"


def test_a_path_that_was_out_because_a_packet_was_late_is_one_line() -> None:
    bad, good = PathState.ASSUMED_BAD, PathState.GOOD
    events = [
        path(1, bad, PathReason.LOSS, time=1_000_000, lost=900_000),
        path(2, bad, PathReason.LOSS, time=1_100_000, lost=900_000),
        path(1, good, PathReason.ARRIVED, time=2_000_000),
        path(2, good, PathReason.ARRIVED, time=4_100_000),
        path(3, good, PathReason.ARRIVED, time=4_200_000),  # out before these events
        path(1, bad, PathReason.LOSS, time=5_000_000, lost=4_000_000),  # and still out
    ]
    assert [news.text for news in summarize("h1", events, REMOTES)] == [
        "2 paths h1 to h3 in plane 0 out of use for 3 ms: packets were late, not lost",
        "1 path h1 to h3 in plane 0 back in use: a packet declared lost was only late",
        "1 path h1 to h3 in plane 0 out of use after a lost packet, 1 ms after the first lost packet was sent",
    ]


def test_a_slow_port_is_named_with_whose_it_is() -> None:
    peer = bytes([0xFD, *[0] * 15])
    events = [
        SlowPortEvent(1, 0, True, True), SlowPortEvent(2, 1, True, False, peer), SlowPortEvent(3, 0, False, True),
        SlowPortEvent(4, 2, False, False, bytes(16)),
    ]  # fmt: skip
    assert [news.text for news in summarize("h1", events, REMOTES, {peer: "h3"})] == [
        "h1@p0 is slower than the other ports, which wait for it",
        "h3@p1, or its plane on the way from h1, is slower than the other ports, which wait for it",
        "h1@p0 is no longer slower",
        "0000:0000:0000:0000:0000:0000:0000:0000@p2, or its plane on the way from h1, is no longer slower",
    ]
