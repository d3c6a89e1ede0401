"""What callers may give: experiments as files, text, mappings or values; seeds as a number or a list; settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from mrc_common import strict_json
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import Experiment, load_file, load_text

Given = str | Path | Mapping[str, Any] | Experiment
_BARE = re.compile(r"[\w.%@:<>+/-]+")  # values that stand as they are behind --set


def as_experiment(given: Given) -> Experiment:
    """The experiment: of a file's path, of the text of a file (which has a line feed), of a mapping, or itself.

    What a text or mapping names, such as a fabric file, is looked for in the current folder. Raises ExperimentError
    (FileError) for anything wrong.
    """
    if isinstance(given, Experiment):
        return given
    if isinstance(given, Mapping):
        return load_text(_yaml_of(given))
    if isinstance(given, str) and "\n" in given:
        return load_text(given)
    if isinstance(given, str | Path):
        return load_file(given)
    raise ExperimentError(
        f"an experiment is a path, the text of a file, a mapping or an Experiment, not {type(given).__name__}"
    )


def as_seeds(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """The seeds: of a number so many, from 1 on; else those given, each once. Raises ExperimentError."""
    if isinstance(seeds, int):
        if isinstance(seeds, bool) or seeds < 1:
            raise ExperimentError(f"seeds is {seeds!r}, but must be a number from 1 on, or a list of seeds")
        return tuple(range(1, seeds + 1))
    found = tuple(dict.fromkeys(seeds)) if isinstance(seeds, Iterable) else ()
    for seed in found:
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise ExperimentError(f"the seed {seed!r} is not a whole number from 0 on")
    if not found:
        raise ExperimentError(f"seeds is {seeds!r}, but must be a number from 1 on, or a list of seeds")
    return found


def as_settings(settings: Mapping[str, Any]) -> list[str]:
    """Settings as ``--set`` of ``mrc sweep`` takes them: ``key=value,value``. A single value need not be a list."""
    return [f"{key}={','.join(_value(one) for one in _listed(key, values))}" for key, values in settings.items()]


def _listed(key: str, values: Any) -> Sequence[Any]:
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        return [values]
    found = list(values)
    if not found:
        raise ExperimentError(f"{key} has no values: give a list of at least one")
    return found


def _value(value: Any) -> str:
    """A value as YAML in one line: plain words as they are, all else as JSON, which is YAML."""
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else strict_json.dumps(value)
    try:
        return strict_json.dumps(value.item() if hasattr(value, "item") else value)  # numpy's numbers too
    except (TypeError, ValueError):
        raise ExperimentError(f"{value!r} is no value of an experiment file") from None


def _yaml_of(given: Mapping[str, Any]) -> str:
    try:
        return str(yaml.safe_dump(_plain(given), sort_keys=False, allow_unicode=True))
    except yaml.YAMLError as error:
        raise ExperimentError(f"the mapping cannot be written as YAML: {error}") from None


def _plain(value: Any) -> Any:
    """With lists for tuples and dictionaries for other mappings, as YAML has them; paths are text."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value
