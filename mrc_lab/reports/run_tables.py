"""Tables over all cases of a run, one row a fact, for pandas and the like: flows, and how busy links were.

    flows.csv             every flow that has a size, also those that had not ended (no end, no time, no slowdown)
    link_utilisation.csv  every direction of a link

Times are nanoseconds from the beginning of a case, in emulation on the scale of the run.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from mrc_common.written_files import writing
from mrc_lab.experiments.files.model import Experiment
from mrc_lab.experiments.running.recording import Recording
from mrc_lab.reports import link_utilisation

FLOWS = (
    "case", "seed", "tenant", "flow", "source", "destination", "bytes", "start_ns", "end_ns", "fct_ns", "ideal_ns",
    "slowdown", "retransmitted",
)  # fmt: skip


def write_run_tables(experiment: Experiment, recordings: Mapping[str, Recording], seed: int, folder: Path) -> None:
    """Write the tables into the result's folder; flows.csv only if there is a flow that has a size."""
    if any(recording.flow_records for recording in recordings.values()):
        _write(folder / "flows.csv", FLOWS, _flows(recordings, seed))
    links = (
        row
        for case in experiment.cases
        for row in link_utilisation.rows(case.name, link_utilisation.utilisation(case, recordings[case.name]))
    )
    _write(folder / "link_utilisation.csv", link_utilisation.HEAD, links)


def _write(path: Path, head: Sequence[str], facts: Iterable[Sequence[object]]) -> None:
    with writing(path, newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(facts)


def _flows(recordings: Mapping[str, Recording], seed: int) -> Iterator[Sequence[object]]:
    for name, recording in recordings.items():
        for record in recording.flow_records:
            info = recording.flows[record.flow]
            tenant = recording.tenants[info.tenant].name if recording.tenants else ""
            slowdown = "" if record.slowdown is None else f"{record.slowdown:.6g}"
            yield (
                name, seed, tenant, record.number, info.source, info.destination, record.size, record.began,
                _known(record.ended), _known(record.time), record.ideal, slowdown, _known(record.retransmitted),
            )  # fmt: skip


def _known(value: int | None) -> int | str:
    return "" if value is None else value
