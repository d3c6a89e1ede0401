"""Step time over time, one panel a transport, faults shaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mrc_common.written_files import writing
from mrc_lab.demo.metrics import steps_of
from mrc_lab.demo.record import RunRecord

_COLOURS = {"roce": "#b4521e", "mrc": "#1f6f8b"}
_SHADES = {"t0-t1": "#d9a400", "nic-t0": "#7a3fa0"}
_NAMES = {"roce": "RoCE RC, one path per queue pair", "mrc": "MRC, every packet its own path"}


def plot_step_times(records: Sequence[RunRecord], path: Path) -> None:
    """Draw the step times of each run to a PNG at `path`."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot, ticker

    rows = max(len(records), 1)
    figure, axes = pyplot.subplots(
        rows, 1, figsize=(10, 3.2 * rows), sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    for axis, record in zip(axes[:, 0], records, strict=False):
        steps = steps_of(record)
        end = record.seconds(record.ended_ns)
        for fault in record.faults:
            link_up = end if fault.link_up_ns is None else record.seconds(fault.link_up_ns)
            shade = _SHADES[fault.kind.value]
            axis.axvspan(
                record.seconds(fault.link_down_ns), link_up, color=shade, alpha=0.25, lw=0, label=f"{fault.link} cut"
            )
        times, durations = [record.seconds(s.end_ns) for s in steps], [s.duration_s for s in steps]
        colour = _COLOURS.get(record.transport, "black")
        axis.vlines(times, 0, durations, color=colour, lw=0.8, alpha=0.5)
        axis.plot(times, durations, ".", color=colour, ms=4)
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axis.yaxis.set_minor_formatter(ticker.NullFormatter())
        axis.set_title(_NAMES.get(record.transport, record.transport), loc="left", fontsize=11)
        axis.set_ylabel("step time (s)")
        axis.grid(axis="y", which="both", alpha=0.25)
        if record.faults:
            axis.legend(loc="upper right", fontsize=8)
    axes[-1, 0].set_xlabel("time since start of the run (s)")
    with writing(path, binary=True) as file:
        figure.savefig(file, format="png", dpi=110)
    pyplot.close(figure)
