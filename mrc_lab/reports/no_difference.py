"""Cases of a file that went the same, so that what they vary made no difference.

A file that turns trimming off in one variant and on in another shows nothing if no queue ever fills: both runs are the
same to the packet, and their equal metrics look like a result. In simulation, where the same case and seed give the
same packets, cases that vary something and whose recordings are equal have met nothing that it applies to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mrc_lab.experiments.files.model import Case, Experiment
from mrc_lab.experiments.running.recording import Recording
from topologies.queues import QueueProfile

_MAX_NAMES = 6  # cases and settings that a sentence names
_OF_QUEUES = {field.name for field in dataclasses.fields(QueueProfile)} | {"pfc"}


def without_difference(experiment: Experiment, recordings: Mapping[str, Recording], backend: str) -> Iterator[str]:
    """A sentence without a full stop for each group of cases that differ in the file and went the same."""
    if backend != "sim":
        return
    groups: list[list[Case]] = []
    for case in experiment.cases:
        for group in groups:
            if _same(recordings[group[0].name], recordings[case.name]):
                group.append(case)
                break
        else:
            groups.append([case])
    for group in groups:
        varied = list(dict.fromkeys(name for case in group[1:] for name in _differences(group[0], case)))
        if varied:
            yield (
                f"{_listed([case.name for case in group])} went the same to the packet: this file cannot show what they"
                f" vary ({_listed(varied)}){_why(varied, recordings[group[0].name])}"
            )


def _same(one: Recording, other: Recording) -> bool:
    """Whether two runs sent, lost and delivered the same at the same times."""
    series = ("times", "flow_samples", "link_samples")
    return (
        one.flows == other.flows
        and one.messages == other.messages
        and one.operations == other.operations
        and one.paths == other.paths
        and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in series)
    )


def _differences(one: Any, other: Any, name: str = "") -> Iterator[str]:
    """Dotted names of what two cases do not have in common, as a file writes them as far as it has them."""
    if dataclasses.is_dataclass(one) and type(one) is type(other):
        for field in dataclasses.fields(one):
            named = name == "" and field.name in ("name", "point", "measure")
            if field.compare and not named and field.name != "line":
                inner = f"{name}.{field.name}" if name else field.name
                yield from _differences(getattr(one, field.name), getattr(other, field.name), inner)
    elif _is_mapping(one) and _is_mapping(other):
        values, others = dict(one), dict(other)
        for key in dict.fromkeys((*values, *others)):
            yield from _differences(values.get(key), others.get(key), f"{name}.{key}")
    elif isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from _differences(a, b, name if len(one) == 1 else f"{name}.{number}")
    elif one != other:
        yield name.replace("tenants.workload", "workload").replace("tenants.transport", "transport")


def _is_mapping(value: Any) -> bool:
    """Whether a value is pairs of name and value, as sections of settings are."""
    return isinstance(value, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in value
    )


def _why(varied: list[str], recording: Recording) -> str:
    """The likely reason, where it is known."""
    of_queues = all(name.rpartition(".")[2] in _OF_QUEUES or ".queues" in name for name in varied)
    lost = bool(recording.trimmed) or bool(recording.drops) or recording.flow_samples[-1, :, 2:].any()
    if of_queues and not lost:
        return "; no packet waited long enough to be marked, trimmed or dropped: have more hosts send to one, or faster"
    return ""


def _listed(names: list[str]) -> str:
    *others, last = names[:_MAX_NAMES]
    if len(names) > _MAX_NAMES:
        return f"{', '.join((*others, last))} and {len(names) - _MAX_NAMES} more"
    return f"{', '.join(others)} and {last}" if others else last
