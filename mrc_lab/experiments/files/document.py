"""YAML that remembers where it stands, so that every error can name the line and the key.

A :class:`Value` is a piece of the document: a mapping, a list or a scalar, with the file, the line and the dotted key
that lead to it. Readers (`field_types`) ask it for what they need and call :meth:`Value.error` for what is not right.
Two documents can be laid over one another (:func:`overlay`); every piece keeps the line it came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from mrc_common import yaml_limits
from mrc_lab.errors import FileError
from mrc_lab.experiments.files.renamed_keys import replace_old_keys
from mrc_lab.experiments.files.short_forms import write_out

MAX_BYTES = 1 << 20
_MAX_DEPTH = 32
_MAX_VALUES = 100_000
_LINE = 80
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]+")
_PATTERN = re.compile(r"[A-Za-z][\w@:*?>-]*(?:\[[0-9, -]*\][\w@:*?>-]*)+")  # as in h[1-4] or t0-0:t1-[0,2]@p0
_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # but newlines and tabs


@dataclass(frozen=True, slots=True)
class Value:
    """A piece of a document. `key` is its dotted name from the top, empty for the whole.

    `notes` are messages for the author of the document.
    """

    node: yaml.Node
    source: str
    key: str = ""
    notes: tuple[str, ...] = ()

    @property
    def line(self) -> int:
        """Where it begins, from 1."""
        return int(self.node.start_mark.line) + 1

    def error(self, problem: str) -> FileError:
        """What to raise: file, line, key and `problem`."""
        place = f"{self.source}, line {self.line}: "
        return FileError(f"{place}{self.key}: {problem}" if self.key else place + problem)

    def items(self) -> dict[str, Value]:
        """The members of a mapping, in order; FileError when it is none or a key comes twice."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"must be a mapping of keys and values, not {self.what()}")
        found: dict[str, Value] = {}
        for key_node, node in self.node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else ""
            member = Value(node, self.source, f"{self.key}.{key}" if self.key else key)
            if not key:
                raise Value(key_node, self.source, self.key).error("a key must be a word")
            if key in found:
                raise Value(key_node, self.source, member.key).error("is given twice")
            found[key] = member
        return found

    def elements(self) -> Iterator[Value]:
        """The elements of a list; FileError when it is none."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error(f"must be a list, not {self.what()}")
        for number, node in enumerate(self.node.value):
            yield Value(node, self.source, f"{self.key}[{number}]")

    def scalar(self) -> Any:
        """A text, number, yes/no or nothing; FileError for anything with parts."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise self._not_single()
        try:
            return yaml.SafeLoader("").construct_object(self.node, deep=True)
        except yaml_limits.CONSTRUCTION_ERRORS:
            raise self.error(f"{self.node.value[:_LINE]!r} is not a value that YAML knows") from None

    def text(self) -> str:
        """A scalar as it is written."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise self._not_single()
        return str(self.node.value)

    def _not_single(self) -> FileError:
        """That this has parts; a list most likely means one run for each of its values."""
        return self.error(f"must be a single value, not {self.what()}{self._as_variants()}")

    def _as_variants(self) -> str:
        """How to write a list of values as variants, as an end of a sentence; nothing for anything else."""
        values = self.node.value if isinstance(self.node, yaml.SequenceNode) else ()
        if not values or not all(isinstance(value, yaml.ScalarNode) for value in values) or "[" in self.key:
            return ""
        names = self.key.split(".")
        parts = []
        for value in values[:2]:
            text = str(value.value)[:_LINE]
            inside = ": {".join(names) + f": {text}" + "}" * (len(names) - 1)
            parts.append(f"{{name: {_NOT_IN_NAMES.sub('-', text)}, {inside}}}")
        more = ", ..." if len(values) > len(parts) else ""
        return f": for a run with each, write variants: [{', '.join(parts)}{more}]"

    def what(self) -> str:
        """Its kind, in words."""
        if isinstance(self.node, yaml.MappingNode):
            return "a mapping"
        return "a list" if isinstance(self.node, yaml.SequenceNode) else repr(self.node.value[:_LINE])


def parse(text: str, source: str) -> Value:
    """The document in `text`; FileError when it is not YAML, is empty, or is nested too deeply."""
    if len(text) > MAX_BYTES:
        raise FileError(f"{source}: an experiment file has at most {MAX_BYTES} characters")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "is not valid YAML"
        raise FileError(f"{source}{_where(error, text)}: {_unquoted(error, text) or problem}") from None
    except RecursionError:
        raise FileError(f"{source}: is nested too deeply for an experiment file") from None
    if node is None:
        raise FileError(f"{source}: is empty")
    if yaml_limits.is_larger_than(node, _MAX_VALUES):
        raise FileError(f"{source}: has more than {_MAX_VALUES} values, aliases written out")
    _check_pieces(node, source, 0)
    write_out(node)
    return Value(node, source, notes=tuple(f"{source}, {note}" for note in replace_old_keys(node)))


def _where(error: yaml.YAMLError, text: str) -> str:
    mark, position = getattr(error, "problem_mark", None), getattr(error, "position", None)
    if mark:
        return f", line {mark.line + 1}"
    return "" if position is None else f", line {text.count(chr(10), 0, position) + 1}"


def _unquoted(error: yaml.YAMLError, text: str) -> str:
    """What to write for a pattern of names within braces or brackets, where YAML takes its bracket for a list."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return ""
    for pattern in _PATTERN.finditer(text.splitlines()[mark.line] if mark.line < len(text.splitlines()) else ""):
        if pattern.start() <= mark.column <= pattern.end():
            return f'within braces or a list a name with brackets stands in quotes: write "{pattern[0]}"'
    return ""


def overlay(base: yaml.Node, upper: yaml.Node) -> yaml.Node:
    """`upper` laid over `base`: mappings are merged key by key, everything else of `upper` replaces.

    A mapping that says what `kind` it is replaces the whole mapping below. Of two lists whose elements have a `name`,
    elements of one name are merged, and new ones come behind.
    """
    if isinstance(base, yaml.SequenceNode) and isinstance(upper, yaml.SequenceNode):
        return _overlay_named(base, upper)
    if not isinstance(base, yaml.MappingNode) or not isinstance(upper, yaml.MappingNode):
        return upper
    above = {key.value: (key, node) for key, node in upper.value if isinstance(key, yaml.ScalarNode)}
    if "kind" in above:
        return upper
    merged = []
    for key, node in base.value:
        if isinstance(key, yaml.ScalarNode) and key.value in above:
            upper_key, upper_node = above.pop(key.value)
            merged.append((upper_key, overlay(node, upper_node)))
        else:
            merged.append((key, node))
    merged += above.values()
    return yaml.MappingNode(base.tag, merged, upper.start_mark, upper.end_mark)


def name_of(element: yaml.Node) -> str:
    """What an element of a list says that it is called; nothing when it does not."""
    members = element.value if isinstance(element, yaml.MappingNode) else ()
    return next((str(value.value) for known, value in members if known.value == "name"), "")


def _overlay_named(base: yaml.SequenceNode, upper: yaml.SequenceNode) -> yaml.Node:
    above = {name_of(element): element for element in upper.value}
    below = [name_of(element) for element in base.value]
    if len(above) < len(upper.value) or not all((*above, *below)):
        return upper
    merged = [
        overlay(element, above[name]) if name in above else element
        for name, element in zip(below, base.value, strict=True)
    ]
    merged += [element for name, element in above.items() if name not in below]
    return yaml.SequenceNode(base.tag, merged, upper.start_mark, upper.end_mark)


def without(node: yaml.Node, *keys: str) -> yaml.Node:
    """A mapping without some keys."""
    if not isinstance(node, yaml.MappingNode):
        return node
    kept = [(key, value) for key, value in node.value if getattr(key, "value", None) not in keys]
    return yaml.MappingNode(node.tag, kept, node.start_mark, node.end_mark)


def _check_pieces(node: yaml.Node, source: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise FileError(f"{source}, line {node.start_mark.line + 1}: is nested too deeply for an experiment file")
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _check_pieces(key, source, depth + 1)
            _check_pieces(value, source, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_pieces(value, source, depth + 1)
    elif found := _UNSHOWN.search(node.value):
        raise FileError(f"{source}, line {node.start_mark.line + 1}: holds {found[0]!r}, which cannot be shown")
