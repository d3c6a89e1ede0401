"""The navigation of the site: a tab for newcomers, one for each of the five roles, and two to look things up.

A page has one place, in the tab of those who need it first; the others find it by search and by links. Paths are those
of the project's folder. Pages named ``reference/...`` are made by ``reference``, and ``index.md`` is README.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

Entry: TypeAlias = "str | Mapping[str, Sequence[Entry]]"  # a page, or a titled group of entries

NAVIGATION: Mapping[str, Sequence[Entry]] = {
    "Home": ["index.md"],
    "Start": [
        "docs/README.md",
        "docs/start.md",
        "docs/demo.md",
        "docs/installation.md",
        "docs/virtual-machine.md",
        "docs/how-mrc-works-here.md",
        "docs/prompt.md",
        "docs/faults.md",
        "docs/live-view.md",
        "docs/gallery.md",
        "docs/troubleshooting.md",
        "docs/glossary.md",
    ],
    "Researcher": [
        "docs/tutorials/researcher.md",
        {
            "Experiments": [
                "docs/experiments.md",
                "docs/simulation.md",
                "docs/scale.md",
                "docs/extending.md",
                "docs/ci.md",
                "docs/fabrics.md",
                "docs/workloads.md",
                "docs/random-flows.md",
                "docs/htsim.md",
                "docs/long-links.md",
            ]
        },
        {
            "Fidelity": [
                "docs/scope.md",
                "docs/baselines.md",
                "docs/ranking.md",
                "docs/timing.md",
                "docs/performance.md",
                "docs/published-figures.md",
                "docs/congestion.md",
                "docs/cross-check.md",
            ]
        },
    ],
    "Planner": ["docs/tutorials/dead-t1.md", "docs/plan.md"],
    "RDMA engineer": [
        "docs/tutorials/rdma-engineer.md",
        {"Applications": ["docs/verbs.md", "docs/applications.md", "docs/collectives.md", "docs/privileges.md"]},
        {
            "Observe": [
                "docs/counters.md",
                "docs/telemetry.md",
                "docs/captures.md",
                "docs/trace.md",
                "docs/path-mapping.md",
            ]
        },
        {"The protocol": ["docs/protocol.md", "docs/conformance.md", "docs/conformance-kit.md"]},
    ],
    "ML engineer": ["docs/tutorials/ml-engineer.md", "docs/pytorch.md", "docs/training-faults.md"],
    "P4 learner": [
        "docs/tutorials/p4-learner.md",
        "docs/p4.md",
        "docs/p4-and-bmv2.md",
        "docs/switch.md",
        "docs/p4-compiler.md",
        "docs/kernel-switches.md",
        "docs/trimming.md",
    ],
    "Reference": ["docs/command-line.md", "docs/listings.md", "docs/stability.md", "docs/api.md"],
    "Project": [
        "docs/architecture.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        {"Decisions": ["docs/decisions/*.md"]},
        {"Lab notes": ["docs/lab-notes/*.md"]},
    ],
}


def pages(root: Path, navigation: Mapping[str, Sequence[Entry]] = NAVIGATION) -> list[str]:
    """Every page that the navigation lists, in its order."""
    return [page for entries in navigation.values() for page in _listed(_expanded(root, entries))]


def tree(root: Path, reference: Sequence[str]) -> list[dict[str, object]]:
    """The navigation as the site's builder reads it, with the pages of the API reference below Reference."""
    found: list[dict[str, object]] = []
    for title, entries in NAVIGATION.items():
        expanded = _expanded(root, entries)
        if title == "Reference":
            expanded.append({"Python API": list(reference)})
        found.append({title: expanded[0] if title == "Home" else expanded})
    return found


def _expanded(root: Path, entries: Sequence[Entry]) -> list[Entry]:
    """The entries with patterns replaced by the pages that match, an index first."""
    found: list[Entry] = []
    for entry in entries:
        if not isinstance(entry, str):
            found.append({title: _expanded(root, below) for title, below in entry.items()})
        elif "*" in entry:
            matching = sorted(str(page.relative_to(root)) for page in root.glob(entry))
            matching.sort(key=lambda page: not page.endswith("README.md"))
            found += matching
        else:
            found.append(entry)
    return found


def _listed(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for below in entry.values():
                yield from _listed(below)
