"""YAML that remembers where it stands: values with the line they came from, so that every error can name it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from mrc_common import yaml_limits
from mrc_common.suggestions import did_you_mean
from topologies.errors import FabricError

_MAX_VALUES = 20_000
_NUMBER_BITS = 64
_LONGEST = 80  # characters of a value that an error repeats


class FileLineError(FabricError):
    """Something is wrong in line `line` of a file (from 1)."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True, slots=True)
class LocatedValue:
    """A piece of a document: a mapping or list of pieces, or a plain value, and the line where it begins."""

    value: Any
    line: int

    def error(self, problem: str) -> FileLineError:
        """What to raise."""
        return FileLineError(self.line, problem)

    def mapping(self, what: str, known: Iterable[str] | None = None) -> Mapping[str, LocatedValue]:
        """The members of a mapping; FileLineError when it is none, or has a key that is not `known`."""
        known = None if known is None else tuple(known)
        if not isinstance(self.value, dict):
            example = f" such as {known[0]!r}" if known else ""
            raise self.error(f"{what} must be a mapping with keys{example}, not {self.kind()}")
        for key, member in self.value.items():
            if known is not None and key not in known:
                hint = did_you_mean(str(key), known, most=1, cutoff=0.6) or f"known keys are {', '.join(known)}"
                raise member.error(f"unknown key {shown(key)} in {what}: {hint}")
        return self.value

    def kind(self) -> str:
        """What it is, in words."""
        names = {type(None): "nothing", str: "a word", list: "a list", dict: "a mapping", bool: "yes or no"}
        number = isinstance(self.value, int | float)
        return names.get(type(self.value), "a number" if number else type(self.value).__name__)

    def integer(self, key: str) -> int:
        """A whole number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or abs(self.value) >> _NUMBER_BITS:
            raise self.error(f"{key} must be a whole number, not {self.shown()}")
        return self.value

    def bounded(self, key: str, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        number = self.integer(key)
        if not low <= number <= high:
            raise self.error(f"{key} is {number}, but must be between {low} and {high}")
        return number

    def shown(self) -> str:
        """The value in an error message."""
        return f"a {self.kind()[2:]}" if isinstance(self.value, dict) else shown(_plain(self.value))


def shown(value: object) -> str:
    """A value in an error message, which is to be one line."""
    if isinstance(value, int) and abs(value) >> _NUMBER_BITS:
        return f"a number of more than {_NUMBER_BITS} bits"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _plain(value: Any) -> Any:
    return [_plain(piece.value) for piece in value] if isinstance(value, list) else value


def document(text: str) -> LocatedValue:
    """What the text says. Raises FabricError, with a line where there is one."""
    loader = None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if yaml_limits.is_larger_than(node, _MAX_VALUES):
            raise FabricError(f"has more than {_MAX_VALUES} values, aliases written out")
        return LocatedValue(None, 1) if node is None else _piece(loader, node)
    except yaml.YAMLError as error:
        raise _yaml_error(error, text) from None
    except RecursionError:
        raise FabricError("is nested too deeply for a fabric file") from None
    finally:
        if loader is not None:
            loader.dispose()


def _piece(loader: yaml.SafeLoader, node: yaml.Node) -> LocatedValue:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        return LocatedValue([_piece(loader, part) for part in node.value], line)
    if isinstance(node, yaml.MappingNode):
        return LocatedValue(_members(loader, node), line)
    try:
        return LocatedValue(loader.construct_object(node, deep=True), line)
    except yaml.constructor.ConstructorError:
        raise
    except yaml_limits.CONSTRUCTION_ERRORS:
        raise FileLineError(line, "holds a value that YAML does not know") from None


def _members(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[str, LocatedValue]:
    """The members of a mapping, each with the line of its key. A key given twice is an error."""
    seen = set()
    for key_node, _ in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise FileLineError(key_node.start_mark.line + 1, "a key must be a word")
        if key_node.value in seen:
            raise FileLineError(key_node.start_mark.line + 1, f"key {key_node.value!r} is given twice")
        seen.add(key_node.value)
    loader.flatten_mapping(node)
    found = {}
    for key_node, value in node.value:
        found[str(key_node.value)] = LocatedValue(_piece(loader, value).value, key_node.start_mark.line + 1)
    return found


def _yaml_error(error: yaml.YAMLError, text: str) -> FabricError:
    mark, position = getattr(error, "problem_mark", None), getattr(error, "position", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "is not valid YAML"
    if mark is not None:
        return FileLineError(mark.line + 1, f"column {mark.column + 1}: {problem}")
    if position is not None:
        return FileLineError(text.count("\n", 0, position) + 1, str(problem))
    return FabricError(str(problem))
