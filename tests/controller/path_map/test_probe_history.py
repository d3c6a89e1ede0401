"""What counts as sent and lost, and what does not."""

from __future__ import annotations

import numpy as np

from controller.path_map.probe_history import ProbeHistory
from mrc_host.path_probes import ProbeReport, ProbesArrived, ProbesSent
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.probe_plan import ProbeKind, probe_plan

PLAN = probe_plan(multi_plane_clos(planes=1, t0=1, t1=0, hosts=2))
ALL = (1 << len(PLAN.routes["h1"])) - 1
LOOP, ONE_WAY = (
    next(n for n, route in enumerate(PLAN.routes["h1"]) if route.kind is kind)
    for kind in (ProbeKind.T0, ProbeKind.PEER)
)


def history(report_timeout: int = 100) -> ProbeHistory:
    return ProbeHistory(PLAN, grace_ns=10, report_timeout_ns=report_timeout, keep_ns=1000)


def address(host: str) -> bytes:
    return addressing.nic_address(PLAN.fabric, PLAN.fabric.nic(host)).packed


def sent(paths: int = ALL, number: int = 0) -> ProbeReport:
    return ProbeReport(True, sent=(ProbesSent(number, paths),))


def arrived(source: str, paths: int, number: int = 0) -> ProbeReport:
    return ProbeReport(True, arrived=(ProbesArrived(address(source), number, paths),))


def counts(history: ProbeHistory, route: int, since: int = 0) -> tuple[float, float]:
    out, lost = history.counts(since)
    return float(out[route]), float(lost[route])


def test_a_probe_counts_as_lost_only_after_its_receiver_could_have_reported_it() -> None:
    h = history()
    h.absorb("h1", sent(), 0)
    h.absorb("h1", arrived("h1", 1 << LOOP), 5)
    h.absorb("h2", ProbeReport(True), 9)
    h.judge(9)
    assert counts(h, LOOP) == (0, 0)
    h.absorb("h1", ProbeReport(True), 10)
    h.absorb("h2", ProbeReport(True), 10)
    h.judge(10)
    assert counts(h, LOOP) == (1, 0)
    assert counts(h, ONE_WAY) == (1, 1)


def test_probes_to_a_silent_receiver_do_not_count_as_lost() -> None:
    h = history()
    h.absorb("h1", sent(), 0)
    h.absorb("h1", arrived("h1", 1 << LOOP), 50)
    h.judge(120)
    h.absorb("h2", ProbeReport(True), 150)
    h.judge(150)
    assert counts(h, LOOP) == (1, 0)
    assert counts(h, ONE_WAY) == (0, 0)


def test_probes_sent_while_their_receiver_was_away_are_discarded() -> None:
    for away in (ProbeReport(False), ProbeReport(True)):  # it restarted, or it was silent for long
        h = history(report_timeout=1000)
        h.absorb("h2", ProbeReport(True), 0)
        h.absorb("h1", sent(1 << ONE_WAY), 10)
        h.absorb("h2", away, 30 if not away.probing else 600)
        h.judge(600)
        assert counts(h, ONE_WAY) == (0, 0)


def test_a_late_probe_is_no_longer_counted_as_lost() -> None:
    h = history()
    h.absorb("h1", sent(), 0)
    for now in (0, 20):
        h.absorb("h2", ProbeReport(True), now)
        h.judge(now)
    assert counts(h, ONE_WAY) == (1, 1)
    h.absorb("h2", arrived("h1", 1 << ONE_WAY), 30)
    assert counts(h, ONE_WAY) == (1, 0)
    assert h.late == 1
    h.absorb("h2", arrived("h1", 1 << ONE_WAY), 40)  # a copy changes nothing more
    assert counts(h, ONE_WAY) == (1, 0)


def test_rounds_are_counted_separately_and_old_ones_expire() -> None:
    h = history(4000)
    for number, now in ((0, 0), (1, 100), (2, 1500)):
        h.absorb("h1", sent(1 << ONE_WAY, number), now)
        h.absorb("h2", arrived("h1", 1 << ONE_WAY, number) if number != 1 else ProbeReport(True), now + 10)
        h.judge(now + 10)
    assert counts(h, ONE_WAY, since=1000) == (1, 0)
    assert counts(h, ONE_WAY) == (1, 0)


def test_erase_discards_counts_of_the_given_routes_before_a_time() -> None:
    h = history(4000)
    for number in range(3):
        h.absorb("h1", sent(ALL, number), 100 * number)
        for host in ("h1", "h2"):
            h.absorb(host, ProbeReport(True), 100 * number + 10)
        h.judge(100 * number + 10)
    routes = np.zeros(h.routes, dtype=bool)
    routes[LOOP] = True
    h.erase(routes, before=200)
    assert counts(h, LOOP) == (1, 1)
    assert counts(h, ONE_WAY) == (3, 3)


def test_reports_of_unknown_paths_and_nics_are_ignored() -> None:
    h = history()
    h.absorb("h1", sent(1 << 200), 0)
    h.absorb("h2", ProbeReport(True, arrived=(ProbesArrived(bytes(16), 0, 1),)), 20)
    h.absorb("h1", arrived("h1", 1 << 200), 20)
    h.judge(20)
    assert not h.counts(0)[0].any()
