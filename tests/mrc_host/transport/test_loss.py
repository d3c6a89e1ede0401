"""Lanes and round-trip times."""

from mrc_host.transport.loss import FREE, LOST, OUT, Lane, Reordering, RoundTrip, Sent


def record(serial: int) -> Sent:
    one = Sent()
    one.state = OUT
    one.serial = serial
    return one


def test_the_head_is_the_oldest_transmission_still_unanswered() -> None:
    lane = Lane()
    records = [record(n) for n in range(4)]
    for one in records:
        lane.queue.append((one, one.serial))
    assert lane.head() is records[0]
    records[0].state = FREE
    records[1].state = LOST
    assert lane.head() is records[2]
    records[2].serial = 99  # sent again: its old entry is stale
    assert lane.head() is records[3]
    assert len(lane.queue) == 1
    records[3].state = FREE
    assert lane.head() is None


def test_round_trip_time_follows_rfc_6298_and_keeps_the_least() -> None:
    trip = RoundTrip()
    trip.sample(800)
    assert (trip.smoothed, trip.variation, trip.least) == (800, 400, 800)
    trip.sample(1600)
    assert (trip.smoothed, trip.variation, trip.least) == (900, 500, 800)
    for _ in range(200):
        trip.sample(300)
    assert 295 <= trip.smoothed <= 310
    assert trip.least == 300


def test_before_a_measurement_nothing_younger_than_the_bound_is_lost() -> None:
    trip, order = RoundTrip(), Reordering()
    order.saw(5, 0)
    assert min(order.windows(trip, 50, 0)) > 10**15, "nothing is known at all"
    trip.limit(3000)
    trip.limit(9000)
    assert order.windows(trip, 50, 0) == (3000, 3000)
    trip.sample(100)
    assert order.windows(trip, 50, 0) == (100, 200)
