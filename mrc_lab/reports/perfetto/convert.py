"""Make a Perfetto trace of event traces of NICs, result folders of runs, or both.

An input is a file of JSON lines (one NIC, docs/trace.md), a folder of such files, or a result folder of `mrc run` or
`mrc demo`, whose tables are shown beside the traces below it if the run was traced. Everything is on the clock of the
event traces; tables, whose times count from the beginning of the run, are moved by the run's own event (`run`). The
output is written beside its place and moved there when it is whole.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.event_traces import RUN_FILE
from mrc_lab.reports.perfetto import json_lines
from mrc_lab.reports.perfetto.json_lines import Event, naming_line
from mrc_lab.reports.perfetto.nic_events import NicTracks
from mrc_lab.reports.perfetto.profiler import convert_profile
from mrc_lab.reports.perfetto.result_tables import convert_case, convert_demo
from mrc_lab.reports.perfetto.track_writer import TrackWriter
from mrc_lab.reports.result_folder import TRACE_FOLDER

_REPORT_BYTES: Final = 1 << 20
_STEPS: Final = re.compile(r"steps-(\w+)\.csv")


@dataclass(frozen=True, slots=True)
class Converted:
    """What was made: events of traces, and tables, that were read."""

    output: Path
    events: int
    hosts: tuple[str, ...]


def convert(
    inputs: Sequence[Path],
    output: Path,
    profiles: Sequence[Path] = (),
    progress: Callable[[float], None] = lambda share: None,
) -> Converted:
    """Write `output`. Raises ExperimentError, which names the file and line, and then leaves `output` as it was.

    `progress` gets now and then what share of the event traces has been read.
    """
    if any(output.absolute() == path.absolute() for path in (*inputs, *profiles)) or output.is_dir():
        raise ExperimentError(f"{output} is not a place for the trace", "Name another file with --output.")
    try:
        with tempfile.NamedTemporaryFile(dir=output.parent, prefix=f".{output.name}.", delete=False) as file:
            try:
                conversion = _Conversion(file, sum(map(_size, inputs)), progress)
                for path in inputs:
                    conversion.take(path)
                conversion.add_profiles(profiles)
                file.flush()
                os.chmod(file.name, 0o644)
                os.replace(file.name, output)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise ExperimentError(f"{output} cannot be written: {error.strerror}") from None
    return Converted(output, conversion.events, tuple(conversion.hosts))


class _Conversion:
    def __init__(self, stream: IO[bytes], size: int, progress: Callable[[float], None]) -> None:
        self._size, self._progress = max(1, size), progress
        self._read = self._reported = 0
        self._writer = TrackWriter(stream)
        self._zero: int | None = None  # the wall clock at time 0, in ns since 1970
        self.events = 0
        self.hosts: list[str] = []

    def take(self, path: Path) -> None:
        """One input."""
        if not path.exists():
            raise ExperimentError(f"{path} does not exist")
        if not path.is_dir():
            self._trace(path)
            return
        folder = _case_folder(path)
        transports = sorted(found[1] for each in folder.iterdir() if (found := _STEPS.fullmatch(each.name)))
        if (folder / "completions.csv").exists():
            traced, base = self._traces(folder / TRACE_FOLDER)
            convert_case(self._writer, folder, base, paths=not traced)
        elif transports:
            for transport in transports:
                convert_demo(self._writer, folder, transport)
        elif not self._traces(folder)[0]:
            raise ExperimentError(
                f"{path} has nothing to convert",
                "Give a folder of event traces (*.jsonl), or of 'mrc run' or 'mrc demo'.",
            )

    def add_profiles(self, profiles: Sequence[Path]) -> None:
        """Traces of the PyTorch profiler."""
        if profiles and self._zero is None:
            raise ExperimentError(
                "the event traces do not say what time of day it was, so a profiler's trace cannot be put beside them",
                "In simulation time is virtual: open the profiler's trace in a tab of its own.",
            )
        for path in profiles:
            assert self._zero is not None
            convert_profile(self._writer, path, self._zero)

    def _traces(self, folder: Path) -> tuple[bool, int]:
        """The traces in a folder, if any: whether there are, and when the run began by their clock (ns)."""
        files = sorted(folder.glob("*.jsonl"), key=_natural) if folder.is_dir() else []
        base = 0
        for path in files:
            if path.name == RUN_FILE:
                for number, event in json_lines.events(path):
                    with naming_line(path, number, "an event of a run"):
                        if event["event"] == "run":
                            base = event["t"]
                        self._clock(event)
            elif path.stat().st_size:  # a NIC that was idle has no event
                self._trace(path)
        return bool(files), base

    def _trace(self, path: Path) -> None:
        """One NIC's events."""
        tracks: NicTracks | None = None
        for number, event in json_lines.events(path, self._has_read):
            self.events += 1
            with naming_line(path, number, "an event of a trace"):
                self._clock(event)
                if tracks is None:
                    tracks = NicTracks(self._writer, self._host(path, event), len(self.hosts))
                tracks.take(event)
        if tracks is None:
            raise ExperimentError(f"{path} has no event of a trace")
        tracks.close()

    def _has_read(self, size: int) -> None:
        self._read += size
        if self._read - self._reported > _REPORT_BYTES:
            self._reported = self._read
            self._progress(self._read / self._size)

    def _host(self, path: Path, first: Event) -> str:
        """A name that no other trace has."""
        name = str(first.get("host", path.stem)) if first["event"] == "clock" else path.stem
        same = sum(host == name or host.startswith(f"{name} (") for host in self.hosts)
        self.hosts.append(f"{name} ({same + 1})" if same else name)
        return self.hosts[-1]

    def _clock(self, event: Event) -> None:
        realtime = event.get("realtime")
        if self._zero is None and json_lines.is_time(realtime):
            assert isinstance(realtime, int)
            self._zero = realtime - event["t"]
            self._writer.clocks(event["t"], realtime)


def _size(path: Path) -> int:
    """Bytes of the event traces of an input, to estimate what is left."""
    return sum(one.stat().st_size for one in ([path] if path.is_file() else path.rglob("*.jsonl")))


def _case_folder(path: Path) -> Path:
    """The folder with the tables: that of the only case of a result, or the one given."""
    cases = sorted(each for each in path.iterdir() if (each / "completions.csv").is_file())
    if len(cases) > 1:
        names = ", ".join(case.name for case in cases)
        raise ExperimentError(f"{path} has several cases", f"Give the folder of one of them: {names}.")
    return cases[0] if cases else path


def _natural(path: Path) -> tuple[tuple[int, str], ...]:
    """Order of names with numbers: h2 before h10."""
    return tuple((int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", path.stem))
