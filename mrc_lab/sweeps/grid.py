"""The runs of a sweep: every file with every combination of settings and every seed, all checked before any starts."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import yaml

from mrc_common.declared.assignment import Assignment, assign, holds, named_key, numbered_key, parse_assignment
from mrc_common.declared.document import Value, read_text
from mrc_common.declared.field_types import suggest
from mrc_lab.errors import ExperimentError, FileError
from mrc_lab.experiments.files import sizes
from mrc_lab.experiments.files.document import parse
from mrc_lab.experiments.files.loader import EITHER, load_document
from mrc_lab.experiments.files.model import CasePart, Experiment, case_prefix
from mrc_lab.experiments.files.renamed_keys import current_key
from mrc_lab.experiments.running.run_experiment import extents_of, warnings_of

_SIZES = frozenset(f"workload.{key}" for key in sizes.KEYS.values())
MAX_RUNS = 100_000


@dataclass(frozen=True, slots=True)
class SweepRun:
    """One run. `text` is the experiment file with its settings laid in, `settings` are keys with values as written."""

    experiment: str
    source: str
    text: str
    settings: tuple[tuple[str, str], ...]
    seed: int

    @property
    def id(self) -> str:
        """What the run is, and nothing else, as a word: the same for the same text and seed."""
        content = "\0".join((self.experiment, self.text, str(self.seed)))
        return hashlib.sha256(content.encode()).hexdigest()[:20]

    def __str__(self) -> str:
        """The run in words."""
        return " ".join((self.experiment, *(f"{key}={value}" for key, value in self.settings), f"seed {self.seed}"))


@dataclass(frozen=True, slots=True)
class SweepFile:
    """An experiment file that has been read, or was never written: its place and its text."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Grid:
    """All runs of a sweep, and what identifies it: its files, by name with a digest, and the keys it sets.

    `notes` are messages for the author of the files and settings, `warnings` what runs would warn about, each once.
    `extents` are lines that say what names and patterns came to mean, with the first of the seeds, if they were asked
    for; only of combinations and cases where that differs from those before.
    """

    runs: tuple[SweepRun, ...]
    files: tuple[tuple[str, str], ...]
    keys: tuple[str, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    extents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Combination:
    """A file with settings laid in: its experiment's name, the settings as written, the text, warnings, extents."""

    experiment: str
    settings: tuple[tuple[str, str], ...]
    text: str
    warnings: tuple[str, ...]
    extents: tuple[str, ...]


def make_grid(
    files: Sequence[Path | SweepFile], settings: Sequence[str], seeds: Sequence[int], *, with_extents: bool = False
) -> Grid:
    """The grid over `files`, settings such as ``fabric.planes=1,2`` and `seeds`; its extents take time.

    Raises ExperimentError (FileError) when a file or any combination is not in order.
    """
    notes: list[str] = []
    assignments = [_sweepable(text, notes) for text in settings]
    keys = [assignment.key for assignment in assignments]
    for number, name in enumerate(keys):
        if name in keys[:number]:
            raise FileError(f"--set {name} is given twice: give all its values in one --set")
    count = len(files) * prod(len(assignment.values) for assignment in assignments) * len(seeds)
    if count > MAX_RUNS:
        raise ExperimentError(f"these are {count:,} runs, and a sweep has {MAX_RUNS:,} at most", "Split it.")
    runs: list[SweepRun] = []
    digests: dict[str, str] = {}
    warnings: list[str] = []
    extents: list[str] = []
    for given in files:
        file, text = (given.path, given.text) if isinstance(given, SweepFile) else (given, read_text(given, FileError))
        document = parse(text, str(file))
        notes += document.notes
        combinations = _combinations(file, document, text, assignments, seeds[0] if with_extents else None)
        name = combinations[0].experiment
        if name in digests:
            raise ExperimentError(f"there are two experiments {name}", "Give each file a name of its own.")
        digests[name] = hashlib.sha256(text.encode()).hexdigest()
        runs += [
            SweepRun(name, str(file), combination.text, combination.settings, seed)
            for combination in combinations
            for seed in seeds
        ]
        warnings += itertools.chain.from_iterable(combination.warnings for combination in combinations)
        extents += itertools.chain.from_iterable(combination.extents for combination in combinations)
    once = tuple(dict.fromkeys(notes))
    return Grid(tuple(runs), tuple(digests.items()), tuple(keys), once, tuple(dict.fromkeys(warnings)), tuple(extents))


def _sweepable(text: str, notes: list[str]) -> Assignment:
    """The assignment in `text`, under its key's name of today; adds a note where that is another."""
    assignment = parse_assignment(text, FileError)
    key, note = current_key(assignment.key)
    if note:
        notes.append(f"--set {text}: {note}")
    assignment = replace(assignment, key=key)
    known = list(CasePart.__dataclass_fields__)
    section = assignment.key.partition(".")[0]
    if section not in known:
        raise FileError(f"--set {assignment.key}: unknown key; {suggest(section, known)}")
    return assignment


def _combinations(
    file: Path, document: Value, text: str, assignments: Sequence[Assignment], seed: int | None
) -> list[_Combination]:
    """Every combination of the settings, laid into the file and checked; with a `seed` also their extents."""
    _check_variants(document, assignments)
    places: dict[str, str] = {}
    for assignment in assignments:
        other = places.setdefault(numbered_key(document.node, assignment.key), assignment.key)
        if other != assignment.key:
            raise FileError(f"--set {other} and --set {assignment.key} are one key: give all its values in one --set")
    combinations = []
    before: dict[str, list[str]] = {}
    for choice in itertools.product(*(range(len(assignment.values)) for assignment in assignments)):
        laid = document
        for assignment, number in zip(assignments, choice, strict=True):
            laid = assign(laid, assignment.key, assignment.values[number])
        chosen = tuple((one.key, one.texts[number]) for one, number in zip(assignments, choice, strict=True))
        with_them = f" (with {', '.join(f'{key}={value}' for key, value in chosen)})" if chosen else ""
        try:
            experiment = load_document(laid, text, file.stem)
        except FileError as error:
            raise FileError(f"{error}{with_them}") from None
        found = warnings_of(experiment, backend_of(experiment))
        warnings = tuple(f"{experiment.name}{with_them}: {warning}" for warning in found)
        extents = {} if seed is None else extents_of(experiment, seed)
        lines = () if extents == before else tuple(_named(f"{experiment.name}{with_them}: ", extents))
        before = extents
        laid_in = yaml.serialize(laid.node, Dumper=yaml.SafeDumper) if chosen else text
        combinations.append(_Combination(experiment.name, chosen, laid_in, warnings, lines))
    return combinations


def backend_of(experiment: Experiment) -> str:
    """Where a sweep runs an experiment: on the backend that its file names, which must need no root; else simulated."""
    backend = experiment.backend_for(None)
    if backend == "emulation":
        raise ExperimentError(
            f"{experiment.name} runs in emulation, and a sweep does not", "Leave backend out of the file."
        )
    return backend


def _named(prefix: str, extents: Mapping[str, Sequence[str]]) -> Iterator[str]:
    return (f"{prefix}{case_prefix(case)}{line}" for case, lines in extents.items() for line in lines)


def _check_variants(document: Value, assignments: Sequence[Assignment]) -> None:
    """FileError when a variant, or a point of the axis, would undo a setting."""
    listed = document.items().get("sizes")
    for assignment in assignments:
        if listed is not None and assignment.key in _SIZES:
            raise listed.error(f"sets {assignment.key} itself, so it cannot be set here")
    parts = [document.items().get(name) for name in ("variants", "axis")]
    for variant in (one for part in parts if part is not None for one in part.elements()):
        for assignment in assignments:
            key, section = named_key(document.node, assignment.key), assignment.key.partition(".")[0]
            if holds(variant.node, key) or dict(EITHER).get(section) in variant.items():
                raise variant.error(f"sets {assignment.key} itself, so it cannot be set here")
