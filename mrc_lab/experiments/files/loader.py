"""Turns an experiment file into an `Experiment`, or says what is wrong with it.

Everything is checked before anything starts: keys, kinds and units while reading, then names against the fabric and
times against the run. With `variants`, every variant is laid over the file and checked as a whole.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import yaml

from mrc_common.declared.document import Value, read_text
from mrc_common.declared.overlay import overlay, without
from mrc_common.declared.sections import ListOf, Section
from mrc_lab.errors import FileError
from mrc_lab.experiments.files import checks
from mrc_lab.experiments.files.document import parse
from mrc_lab.experiments.files.model import ONLY, Case, CasePart, Experiment, FilePart, Tenant, TransportPart
from mrc_lab.experiments.files.plugin_file import PluginFile
from mrc_lab.experiments.files.program_file import ProgramFile
from mrc_lab.experiments.files.published import resolve_published
from mrc_lab.experiments.files.scale_size import check_fabric_memory
from mrc_lab.experiments.files.short_forms import write_out
from mrc_lab.experiments.files.sizes import named_sizes, with_size
from mrc_lab.experiments.files.tenants import transport_of
from topologies.errors import FabricError
from topologies.p4_program import read_program

# What lies beside the folders of the variants in a result (mrc_lab.reports.result_folder).
FILES = frozenset(
    {
        "experiment.yaml", "summary.json", "run.json", "report.html", "flows.csv", "link_utilisation.csv", "together",
        "published",
    }
)  # fmt: skip
EITHER = (("workload", "workloads"), ("workloads", "workload"))  # a variant with one has not the other
MAX_CASES = 1000  # of variants and points together
CASE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


def load_file(path: Path | str) -> Experiment:
    """Read an experiment file; FileError for anything wrong with it."""
    path = Path(path)
    return load_text(read_text(path, FileError), source=str(path), name=path.stem)


def load_text(text: str, *, source: str = "experiment", name: str = "experiment") -> Experiment:
    """The experiment in YAML `text`; `source` begins every error message, `name` is its name unless it has one."""
    return load_document(parse(text, source), text, name)


def load_document(document: Value, text: str, name: str) -> Experiment:
    """The experiment that a document says; `text` is kept with it, `name` is its name unless it has one."""
    write_out(document.node)  # again, for what a sweep has set
    _load_plugins(document)
    file: FilePart = Section(FilePart).read(document)
    name = file.name or name
    if not CASE_NAME.fullmatch(name):
        whose = "name" if file.name else "without a name: key, the file's own is taken; that"
        raise document.error(f"{whose} {name!r} must be letters, digits and . - + _, 64 at most")
    cases = tuple(_cases(file, document))
    for place in _named_programs(document):
        _check_program(place)
    known = document.items()
    expect = tuple(
        checks.resolve(expectation, cases, place)
        for expectation, place in zip(file.expect, known["expect"].elements() if file.expect else (), strict=True)
    )
    for metric, place in zip(file.report, known["report"].elements() if file.report else (), strict=True):
        checks.check_reported(metric, cases, place)
    published = resolve_published(file.published, cases, known.get("published", document))
    about = file.title or name, file.figure, file.about, file.scaled
    return Experiment(
        name,
        *about,
        cases,
        expect,
        text,
        document.source.name,
        file.report,
        published,
        document.notes,
        file.backend,
        document,
    )


def _cases(file: FilePart, document: Value) -> list[Case]:
    base = without(document.node, *(set(FilePart.__dataclass_fields__) - set(CasePart.__dataclass_fields__)))
    variants = _named(file.variants, "variant")
    points = _named(file.axis, "point") or named_sizes(file.sizes)
    if file.axis and file.sizes:
        raise document.items()["sizes"].error("is an axis too: give axis or sizes")
    if not variants and not points:
        return [_case(ONLY, Value(base, document.source), file.backend)]
    if len(variants) * len(points) > MAX_CASES:
        raise document.error(f"has {len(variants)} variants and {len(points)} points: {MAX_CASES} cases are the most")
    cases: list[Case] = []
    for variant, point in itertools.product(variants or [""], points or [""]):
        node = base
        for part in (variants.get(variant), None if file.sizes else points.get(point)):
            node = node if part is None else _laid_over(node, part)
        if file.sizes:
            node = with_size(Value(node, document.source), points[point])
        name = ".".join(filter(None, (variant, point)))
        if not CASE_NAME.fullmatch(name):
            raise document.error(f"a case would be called {name!r}, and a name has 64 letters at most")
        if name in {case.name for case in cases}:
            raise document.error(f"two cases would be called {name}: call a variant or a point something else")
        cases.append(replace(_case(name, Value(node, document.source), file.backend), point=point))
    return cases


def _named_programs(document: Value) -> list[Value]:
    """Where the file, a variant or a point names a P4 program; of each program the first place."""
    known = document.items()
    parts = [document, *(part for name in ("variants", "axis") if name in known for part in known[name].elements())]
    places = [part.items()["p4"] for part in parts if "p4" in part.items()]
    return list({ProgramFile().read(place): place for place in reversed(places)}.values())


def _check_program(place: Value) -> None:
    """FileError with what is wrong with a P4 program."""
    try:
        read_program(Path(ProgramFile().read(place)))
    except FabricError as error:
        raise place.error(str(error)) from None


def _laid_over(node: yaml.Node, part: Value) -> yaml.Node:
    below = without(node, *(other for one, other in EITHER if one in part.items()))
    return overlay(below, without(part.node, "name"))


def _named(parts: Iterable[Value], what: str) -> dict[str, Value]:
    """Parts of a file that have names of cases; FileError where a name or a key is wrong."""
    found: dict[str, Value] = {}
    for part in parts:
        name = part.items()["name"].text().strip()
        if not CASE_NAME.fullmatch(name):
            raise part.error(f"name {name!r} must be letters, digits and . - + _, 64 at most")
        if name in FILES:
            raise part.error(f"name {name} is that of a file of every result: call the {what} something else")
        if name == ONLY:
            raise part.error(f"name {ONLY} is that of a file without variants: call the {what} something else")
        if name in found:
            raise part.error(f"there are two {what}s {name}")
        for key, member in part.items().items():
            if key not in CasePart.__dataclass_fields__ and key != "name":
                raise member.error(f"unknown key; a {what} may change {', '.join(CasePart.__dataclass_fields__)}")
        found[name] = part
    return found


def _load_plugins(document: Value) -> None:
    """Before what names something of theirs, wherever that stands."""
    if "plugins" in document.items():
        ListOf(PluginFile(), alone=True).read(document.items()["plugins"])


def _case(name: str, document: Value, backend: str) -> Case:
    _load_plugins(document)
    part: CasePart = Section(CasePart).read(document)
    if part.plugins:  # settings of NICs, so that agents run them too
        settings = (*part.transport.settings, ("plugins", part.plugins))
        part = replace(part, transport=replace(part.transport, settings=settings))
    if backend == "scale":
        check_fabric_memory(part.fabric, document.items()["fabric"])
    tenants = tuple(_tenants(part, document))
    case = Case(
        name,
        replace(part.fabric, packets=backend != "scale"),
        tenants,
        part.duration,
        part.transport,
        part.faults,
        part.measure,
        timing=part.timing,
        p4=part.p4,
        flaps=part.flaps,
        document=document,
    )
    checks.check_case(case, document, backend)
    if case.measure.bin > case.duration:
        raise document.error("a time bin (measure.bin) is longer than the run")
    return case


def _tenants(part: CasePart, document: Value) -> Iterator[Tenant]:
    """What runs at once: the tenants of `workloads`, or the workload alone, which has no name."""
    members = document.items()
    if part.workload is not None and part.workloads:
        raise members["workloads"].error("is there beside workload: give one of them")
    if part.workload is not None:
        yield Tenant("", part.workload, part.transport)
    elif not part.workloads:
        raise document.error("workload is missing: what the hosts do")
    names: set[str] = set()
    for entry in part.workloads:
        if entry.name in names:
            raise entry.place.error(f"there are two tenants {entry.name}")
        names.add(entry.name)
        yield Tenant(entry.name, entry.workload, transport_of(entry, members.get("transport"), TransportPart))
