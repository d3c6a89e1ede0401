"""One self-contained HTML file that a person would show to a colleague: what was done, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.files.model import Case, Experiment, case_label, case_prefix
from mrc_lab.experiments.files.quantities import show_rate, show_time
from mrc_lab.experiments.files.workloads import Collective, Training
from mrc_lab.experiments.running.recording import FaultSpan, Recording
from mrc_lab.reports import plots, topology
from mrc_lab.reports.aftermath import aftermaths, sentences
from mrc_lab.reports.markup import Html, html, span, verdict
from mrc_lab.reports.shown import block
from mrc_lab.reports.verdicts import Judged, show
from mrc_lab.reports.writing import write_text

_MOST_AFTERMATHS = 8  # faults of which a report says what followed
RELATIONS = {"at_least": "at least", "at_most": "at most", "about": "about"}
STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#1c1f24}
h1{font-size:1.5em;margin-bottom:.1em} h2{margin-top:1.8em;border-bottom:1px solid #ddd;font-size:1.2em}
h3{margin-bottom:.2em;font-size:1.02em} table{border-collapse:collapse;width:100%;font-size:.88em}
td,th{text-align:left;padding:.3em .6em;border-bottom:1px solid #e4e6ea;vertical-align:top}
.num{text-align:right;white-space:nowrap} td:nth-child(6):last-child{white-space:nowrap}
.pass,.fail,.untrusted{font-weight:600} .pass{color:#2e7d32} .fail{color:#c62828} .untrusted{color:#a66a00}
.sub{color:#666;font-size:.9em;margin-top:0} .warn{background:#fff4dc;border-left:4px solid #e0a100;padding:.5em 1em}
svg{max-width:100%;height:auto} pre{background:#f6f7f9;padding:1em;overflow-x:auto;font-size:.82em}
"""


def write_report(
    folder: Path,
    experiment: Experiment,
    recordings: Mapping[str, Recording],
    judged: Sequence[Judged],
    summary: Mapping[str, Any],
    run: Mapping[str, Any],
) -> None:
    """Write ``report.html`` and the plots as files of their own into `folder`."""
    cases = {case.name: case for case in experiment.cases}
    parts = [_head(experiment, summary), _warnings(recordings), _timing(recordings), _expectations(judged)]
    if len(cases) > 1:
        together = {
            "Throughput of all cases": plots.compare_throughput(recordings),
            "Mean rate of each flow": plots.flow_bars(recordings, cases),
            "Completion times of all cases": plots.completions(recordings, cases),
        }
        side_by_side = block(summary["shown"], experiment.name)
        parts.append("<h2>The cases together</h2>" + side_by_side + _figures(folder, "together", together))
    for name, case in cases.items():
        parts.append(_case(folder, experiment, case, recordings[name], alone=len(cases) == 1))
    parts.append(_circumstances(run, summary))
    parts.append(f"<h2>The file as run</h2><pre>{escape(experiment.text)}</pre>")
    write_text(folder / "report.html", page(experiment.title, "".join(parts)))


def page(title: str, body: str) -> str:
    """A whole HTML document."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    return f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head><body>{body}</body></html>\n'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """An HTML table; cells are text unless they are ``Html``, columns in `numbers` stand to the right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="num">{html(cell)}</{tag}>' if n in numbers else f"<{tag}>{html(cell)}</{tag}>"
            for n, cell in enumerate(row)
        )

    lines = [f"<tr>{cells('th', head)}</tr>", *(f"<tr>{cells('td', row)}</tr>" for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def expectation_row(one: Judged) -> list[str]:
    """Verdict, figure, published, ours, ratio, expected."""
    within = f" ± {100 * one.tolerance:.3g} %" if one.tolerance else ""
    published = show(one.published, one.unit) if one.published is not None else ""
    return [
        verdict(one.verdict.value),
        titled(one.title, one.note),
        published_words(published, one.published_text, one.certainty),
        show(one.ours, one.unit),
        "" if one.ratio is None else f"{one.ratio:.3f}",
        f"{RELATIONS[one.relation]} {show(one.expected, one.unit)}{within}",
    ]


def titled(title: str, note: str) -> Html:
    """A figure's title with a note below, if there is one."""
    return Html(html(title) + (f"<br>{span(note, 'sub')}" if note else ""))


def published_words(number: str, text: str, certainty: str) -> str:
    """``388.8 Gb/s (385.9 to 389.6) [D]``, as far as there is any of it."""
    return " ".join(
        filter(None, [number, f"({text})" if number and text else text, f"[{certainty}]" if certainty else ""])
    )


HEAD = ("", "figure", "published", "ours", "ratio", "expected")


def _head(experiment: Experiment, summary: Mapping[str, Any]) -> str:
    world = "the simulated world" if summary["world"] == "sim" else "emulation"
    parts = [f"<h1>{escape(experiment.title)}</h1>"]
    figure = f"{escape(experiment.figure)} · " if experiment.figure else ""
    parts.append(f'<p class="sub">{figure}{world}, seed {summary["seed"]} · ')
    parts.append(f"{verdict(summary['verdict'])}</p>")
    parts += [f"<p>{escape(text)}</p>" for text in experiment.about.split("\n\n") if text.strip()]
    if experiment.scaled:
        parts.append(f"<p><b>Scaled:</b> {escape(experiment.scaled)}</p>")
    return "".join(parts)


def _warnings(recordings: Mapping[str, Recording]) -> str:
    out = []
    for name, recording in recordings.items():
        if recording.rate_scale != 1:
            out.append(
                f"{escape(case_prefix(name))}rates are {recording.rate_scale:.3g} of the file's,"
                f" times {recording.time_scale:,.0f} times as long; published rates and times are scaled alike."
            )
        of = escape(case_prefix(name))
        out += [f"{of}timing cannot be trusted: {escape(reason)}" for reason in recording.fidelity.reasons]
        out += [f"{of}{escape(error)}" for error in recording.errors[:5]]
    return "".join(f'<p class="warn">{text}</p>' for text in out)


def _timing(recordings: Mapping[str, Recording]) -> str:
    """What the verdict on the timing rests on, of cases that ran in real time."""
    out = []
    for name, recording in recordings.items():
        fidelity = recording.fidelity
        said = [
            words.format(fidelity.figures[key] * by)
            for key, (words, by) in _FIDELITY.items()
            if key in fidelity.figures
        ]
        if said:
            of = f"Timing of {case_prefix(name)}" if case_prefix(name) else "Timing: "
            out.append(f"{of}{'; '.join((*said, *fidelity.notes))}.")
    return "".join(f'<p class="sub">{escape(text)}</p>' for text in out)


_FIDELITY = {  # figures of a Fidelity in words, and what to multiply them by
    "traffic_s": ("{:.3g} s of traffic were watched", 1),
    "machine_round_trip_s": ("the machine delayed a packet and its answer by {:.3g} ms on average", 1e3),
    "machine_delay_p99_s": ("one frame in a hundred by {:.3g} ms or more at one hop", 1e3),
    "machine_line_idle": ("one line idle for {:.1f} % of the run although frames waited", 1e2),
    "lag_p99_s": ("wake-ups up to {:.3g} ms late", 1e3),
    "processors_used": ("the fabric took {:.0f} % of the processors", 1e2),
    "idle_p10": ("at busy times {:.0f} % of them were idle", 1e2),
}


def _expectations(judged: Sequence[Judged]) -> str:
    return "<h2>Expected, published, ours</h2>" + table(HEAD, map(expectation_row, judged), (3, 4))


def _case(folder: Path, experiment: Experiment, case: Case, recording: Recording, *, alone: bool) -> str:
    expectations = [one for one in experiment.expect if one.of.variant in (None, case.name)]
    fabric = build_fabric(case.fabric)
    figures = {
        "Throughput over time": plots.throughput(case, recording, expectations),
        "EV activity: traffic on each path over time": plots.activity(recording) if case.measure.links else "",
        "Paths out of use over time": plots.path_states(recording) if recording.paths else "",
        "Lost, trimmed, dropped": plots.losses(recording),
    }
    if alone:
        figures["Completion times"] = plots.completions({case.name: recording}, {case.name: case})
    figures = {title: svg for title, svg in figures.items() if svg}
    parts = [f"<h2>{'What was done' if alone else escape(case.name)}</h2>", f"<p>{describe(case)}</p>"]
    parts += [topology.picture(fabric, recording.faults), _faults(recording.faults), _what_followed(case, recording)]
    return "".join(parts) + _figures(folder, case.name, figures)


def describe(case: Case) -> str:
    """The case in a sentence or two."""
    part, load, transport = case.fabric, case.workload, case.transport
    planes = "1 plane" if part.planes == 1 else f"{part.planes} planes"
    shape = f"{planes} of {part.t0} T0 and {part.t1} T1, {part.hosts} hosts, {show_rate(part.rate)} a link"
    if isinstance(load, Collective):
        work = f"{load.operation} of {load.bytes} bytes, {load.iterations} times"
    elif isinstance(load, Training):
        sizes = " + ".join(map(str, load.gradients))
        work = f"training, {load.steps} steps of {show_time(load.compute)} computing and {sizes} bytes of gradients"
    else:
        name = load.name.replace("_", " ")
        work = f"{name.capitalize()}: writes of {load.message} bytes, {load.outstanding} under way on a queue pair"
    qps = f"{transport.qps} queue pair{'s' if transport.qps > 1 else ''} a flow"
    return escape(f"{shape}. {transport.type.upper()}, {qps}. {work}. At most {show_time(case.duration)}.")


def _faults(faults: Sequence[FaultSpan]) -> str:
    if not faults:
        return "<p class='sub'>No faults.</p>"
    rows = [
        (str(n), f.label, show_time(f.at), "end of the run" if f.until is None else show_time(f.until))
        for n, f in enumerate(faults, 1)
    ]
    return table(("no.", "fault", "from", "until"), rows, (0, 2, 3))


def _what_followed(case: Case, recording: Recording) -> str:
    """A paragraph for each fault, as far as there was anything to record."""
    found = [list(sentences(one, recording)) for one in aftermaths(case, recording)[:_MOST_AFTERMATHS]]
    parts = [f"<p><b>After fault {n}:</b> {escape(' '.join(text))}</p>" for n, text in enumerate(found, 1) if text]
    if len(recording.faults) > _MOST_AFTERMATHS:
        rest = (
            f"The first {_MOST_AFTERMATHS} of {len(recording.faults)} faults; events.csv has what followed the others."
        )
        parts.append(f"<p class='sub'>{rest}</p>")
    return "".join(parts)


def _figures(folder: Path, name: str, figures: Mapping[str, str]) -> str:
    place = folder / name
    place.mkdir(exist_ok=True)
    out = []
    for number, (title, svg) in enumerate(figures.items(), 1):
        word = title.split(":")[0].lower().replace(" ", "-").replace(",", "")
        write_text(place / f"{number}-{word}.svg", svg)
        out.append(f"<h3>{escape(title)}</h3>{unique_ids(svg, f'{name}-{number}-')}")
    return "".join(out)


def unique_ids(svg: str, prefix: str) -> str:
    """Ids of one SVG must not meet those of another in the same page."""
    prefix = "".join(letter if letter.isalnum() else "_" for letter in prefix)
    for before in ('id="', 'href="#', "url(#"):
        svg = svg.replace(before, before + prefix)
    return svg


def _circumstances(run: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    rows = [
        ("finished", run["finished"]),
        ("took", f"{run['wall_seconds']:.1f} s, {run['packets_per_wall_second']} packets per second"),
        ("commit", run["commit"]),
        ("versions", ", ".join(f"{name} {version}" for name, version in run["versions"].items())),
        ("Python", f"{run['python']} on {run['system']}"),
    ]
    for name, case in summary["cases"].items():
        packets = ", ".join(f"{label} {count}" for label, count in case["packets"].items())
        label = ", ".join(filter(None, ("packets", case_label(name))))
        rows.append((label, f"{packets}; {case['checked_bytes']} bytes compared, {case['wrong_bytes']} wrong"))
    return "<h2>Circumstances</h2>" + table(("", ""), [(a, str(b)) for a, b in rows])
