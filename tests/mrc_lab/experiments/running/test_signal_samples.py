"""Marks and trims over time: laid out by channel, sampled as often as the backend bears it, and nothing is left out."""

from __future__ import annotations

import asyncio
import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from controller.errors import ControllerError
from controller.values import Count, PortCounters, SwitchCounters
from mrc_lab.experiments.running.emulated_backend import EmulatedBackend
from mrc_lab.experiments.running.recording import SIGNAL_COUNTERS
from mrc_lab.experiments.running.signal_samples import SignalSampler
from mrc_lab.experiments.running.simulated_backend import SimulatedBackend
from mrc_lab.reports.tables import write_tables
from tests.mrc_lab.experiments.running.cases import case_of, run
from topologies.clos import multi_plane_clos

INCAST = "{kind: incast, target: h1, sources: [h2, h3, h4], total: 1M}"  # done before the run is over
QUEUES = {"measure": "{bin: 10us, queues: yes}"}


def ports(switch: str, marked: int, trimmed: int) -> SwitchCounters:
    counts = (Count("marked_packets", marked, 9), Count("trimmed_packets", trimmed, 9), Count("arrival loss", 7, 9))
    return SwitchCounters(switch, (), (PortCounters(1, "", counts), PortCounters(99, "", counts)))


def test_counters_are_assigned_to_the_channel_that_begins_at_the_port() -> None:
    fabric = multi_plane_clos(planes=1, t0=1, t1=0, hosts=2)
    sampler = SignalSampler(fabric, ("h1@p0>", "h1@p0<", "h2@p0>", "h2@p0<"))
    found = sampler.sample([ports("t0-0@p0", 3, 2)])
    assert found.tolist() == [[0, 0], [3, 2], [0, 0], [0, 0]]
    assert (sampler.sample([SwitchCounters("t0-0@p0", problem="gone")]) == found).all(), "as it was"


def test_marks_and_trims_of_all_bins_are_those_of_the_run() -> None:
    recording = run(case_of(INCAST, "1ms", **QUEUES))
    assert recording.signal_edges.tolist() == list(range(len(recording.times)))
    total = (recording.signal_samples[-1] - recording.signal_samples[0])[:, SIGNAL_COUNTERS.index("trimmed")]
    found = {recording.channels[place]: int(total[place]) for place in np.flatnonzero(total)}
    assert found == dict(recording.trimmed)
    assert {name.rpartition("@")[0] for name in found} == {"h1"}, "an incast is trimmed before its target"
    assert np.diff(recording.signal_samples, axis=0).min() >= 0


def test_a_backend_that_is_asked_seldom_is_asked_at_the_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    every = run(case_of(INCAST, "1ms", **QUEUES))
    last = len(every.times) - 1
    bins = next(count for count in range(3, 9) if last % count)  # so that the end is not a sample by itself
    monkeypatch.setattr(SimulatedBackend, "signal_period", bins * 10_000 - 5_000)
    seldom = run(case_of(INCAST, "1ms", **QUEUES))
    assert seldom.signal_edges.tolist() == [*range(0, last, bins), last]
    assert (seldom.signal_samples == every.signal_samples[seldom.signal_edges]).all()


def test_they_are_sampled_only_on_request() -> None:
    recording = run(case_of(INCAST, "100us"))
    assert (recording.signal_edges, recording.signal_samples) == (None, None)


def test_the_table_has_what_came_from_one_sample_to_the_next(tmp_path: Path) -> None:
    recording = run(case_of(INCAST, "1ms", **QUEUES))
    assert "signals.csv" in write_tables(recording, tmp_path)
    found: Counter[str] = Counter()
    with (tmp_path / "signals.csv").open() as table:
        for row in csv.DictReader(table):
            assert int(row["end_ns"]) - int(row["begin_ns"]) == 10_000
            found[row["link"] + (">" if row["direction"] == "up" else "<")] += int(row["trimmed"])
    assert dict(+found) == dict(recording.trimmed)


def test_a_controller_that_a_fault_has_taken_down_does_not_end_the_run() -> None:
    class Controller:
        def __init__(self) -> None:
            self.answers = [[ports("t0-0@p0", 3, 2)], ControllerError("the controller is down")]

        def counters(self) -> list[SwitchCounters]:
            answer = self.answers.pop(0)
            if isinstance(answer, ControllerError):
                raise answer
            return answer

    fabric = multi_plane_clos(planes=1, t0=1, t1=0, hosts=2)
    backend = EmulatedBackend.__new__(EmulatedBackend)
    backend._controller = Controller()  # type: ignore[assignment]
    backend._signals = SignalSampler(fabric, ("h1@p0>", "h1@p0<", "h2@p0>", "h2@p0<"))
    first = asyncio.run(backend.sample_signals())
    assert first[1].tolist() == [3, 2]
    assert (asyncio.run(backend.sample_signals()) == first).all()
