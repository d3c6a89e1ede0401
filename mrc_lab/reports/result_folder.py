"""The result folder of a run.

    experiment.yaml   the file as run, with the fabric file and the schedules that it names beside it
    summary.json      metrics and verdicts; the same for the same file and seed
    run.json          when, where, versions, how fast
    report.html       all of it for people, in one file
    flows.csv         every flow that has a size, of all cases, and link_utilisation.csv beside it
    <case>/*.csv      raw series
    <case>/*.svg      plots
    <case>/trace/     event traces of the NICs, of a run with --trace

That of a run with several seeds has such a folder for each, ``seed-<n>``, beside a summary.json, a report.html and a
metrics.csv of all together (`reports.run_seeds`).

`latest` beside the folders of an experiment points to the newest. A folder is made before the run, so that a place
where nothing can be written is found then, and has ``.unfinished`` behind its name until all is in it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from mrc_common import named_files, strict_json
from mrc_common.written_files import write_text
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files.loader import CASE_NAME
from mrc_lab.experiments.files.model import Experiment
from mrc_lab.experiments.files.workloads import ListedFlows, RandomFlows, Replayed
from mrc_lab.experiments.running.recording import Recording
from mrc_lab.reports.run_tables import write_run_tables
from mrc_lab.reports.tables import write_tables
from topologies.loader import dump_text

TRACE_FOLDER = "trace"
PLAYBACK = "playback.html"  # the page that plays the result, where it was asked for
UNFINISHED = ".unfinished"


def make_folder(results: Path, name: str, moment: datetime | None = None, *, ending: str = "") -> Path:
    """A new folder for a run of experiment `name` below `results`, named after the time, with `ending` behind it."""
    stamp = (moment or datetime.now(timezone.utc)).strftime("%Y%m%d-%H%M%S")
    base = results / name
    for number in range(1000):
        plain = base / (stamp if not number else f"{stamp}-{number}")
        folder = plain.with_name(plain.name + ending)
        if ending and os.path.lexists(plain):
            continue
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise ExperimentError(
                f"results cannot be written to {base}: {error.strerror}", "Choose another place with --results."
            ) from None
        return folder
    raise ExperimentError(f"{base} has a thousand results of this second", "Choose another place with --results.")


@contextlib.contextmanager
def unfinished_folder(results: Path, name: str) -> Iterator[Path]:
    """A new folder for a run that begins, ``finish`` gives it its name; a run that came to nothing leaves none.

    ExperimentError when nothing can be written below `results`.
    """
    base = results / name
    made = [place for place in (base, *base.parents) if not os.path.lexists(place)]
    folder = make_folder(results, name, ending=UNFINISHED)
    try:
        yield folder
    except BaseException:
        with contextlib.suppress(OSError):  # one of them has something in it
            for place in (folder, *made):
                place.rmdir()
        raise


@contextlib.contextmanager
def given_folder(place: Path) -> Iterator[Path]:
    """A new folder at `place` for a run that begins, ``finish`` gives it its name; there must be none yet."""
    folder = place.with_name(place.name + UNFINISHED)
    folder.mkdir()
    try:
        yield folder
    except BaseException:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise


def finish(folder: Path, *, newest: bool = True) -> Path:
    """All is in the folder of a run: give it its name, and if it is the `newest` let ``latest`` point to it."""
    named = folder.replace(folder.with_name(folder.name.removesuffix(UNFINISHED)))
    if newest:
        point_latest(named)
    return named


def write_result(
    folder: Path,
    experiment: Experiment,
    recordings: Mapping[str, Recording],
    summary: Mapping[str, Any],
    run: Mapping[str, Any],
) -> None:
    """Write everything but the plots and the report."""
    write_text(folder / "experiment.yaml", experiment.text)
    for file in {case.fabric.file for case in experiment.cases if case.fabric.file is not None}:
        if Path(file.path).name == file.path and not (folder / file.path).exists():  # where the copy looks for it
            write_text(folder / file.path, dump_text(file.fabric))
    for load in {tenant.workload for case in experiment.cases for tenant in case.tenants}:
        if isinstance(load, Replayed):
            load.source.copy_to(folder)
        elif isinstance(load, RandomFlows):
            load.sizes.copy_to(folder)
        elif isinstance(load, ListedFlows):
            load.file.copy_to(folder)
    write_json(folder / "summary.json", summary)
    write_json(folder / "run.json", run)
    write_run_tables(experiment, recordings, summary["seed"], folder)
    for name, recording in recordings.items():
        write_tables(recording, folder / name)


@contextlib.contextmanager
def place_of_traces(results: Path) -> Iterator[Path]:
    """A folder for event traces until there is a result for them; what is still in it in the end is removed."""
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=results, prefix=".trace-", ignore_cleanup_errors=True) as place:
        yield Path(place)


def keep_traces(place: Path, folder: Path) -> None:
    """Move the event traces of every case to its folder in the result."""
    for case in place.iterdir():
        case.replace(folder / case.name / TRACE_FOLDER)


def point_latest(folder: Path) -> None:
    """Let ``latest`` beside `folder` point to it, unless that is a folder of the user's."""
    link, fresh = folder.parent / "latest", folder.parent / f".latest-{os.getpid()}"
    with contextlib.suppress(OSError):  # a file system without links: the folder is there all the same
        fresh.symlink_to(folder.name)
        fresh.replace(link)
    with contextlib.suppress(OSError):
        fresh.unlink(missing_ok=True)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """A JSON file that people can read."""
    write_text(path, strict_json.dumps(strict_json.finite(value), indent=1, ascii_only=False) + "\n")


def read_summary(folder: Path) -> dict[str, Any]:
    """The summary in a result folder; ExperimentError when there is none."""
    path = folder / "summary.json"
    try:
        summary = strict_json.loads(named_files.read_text(path))
    except OSError as error:
        raise ExperimentError(
            f"{path} cannot be read: {error.strerror}", "Give a folder that 'mrc run' has created."
        ) from None
    except ValueError:
        raise ExperimentError(f"{path} is not JSON", "Give a folder that 'mrc run' has created.") from None
    if isinstance(summary, dict) and "world" in summary:  # of an earlier release
        summary.setdefault("backend", summary.pop("world"))
    if isinstance(summary, dict) and isinstance(summary.get("seeds"), list) and "cases" not in summary:
        raise ExperimentError(
            f"{path} is the summary of several seeds", "Give the folder of one seed, such as seed-1 in it."
        )
    if not isinstance(summary, dict) or not isinstance(summary.get("cases"), dict) or not summary["cases"]:
        raise ExperimentError(f"{path} is not the summary of an experiment")
    for name in summary["cases"]:
        if not CASE_NAME.fullmatch(name):  # it names a folder
            raise ExperimentError(f"{path} has a case {name!r}, which is no name of a variant")
    return summary
