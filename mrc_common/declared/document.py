"""YAML that remembers where it stands, so that every error can name the line and the key.

A :class:`Value` is a piece of the document: a mapping, a list or a scalar, with the file, the line and the dotted key
that lead to it. Readers (:mod:`.field_types`) ask it for what they need and call :meth:`Value.error` for what is not
right. Documents of strangers are refused before they cost memory or time: long, deep or self-containing ones, and those
with characters that cannot be shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mrc_common import named_files, yaml_limits

MAX_BYTES = 1 << 20
_MAX_DEPTH = 32
_BYTES_OF_VALUE = 10  # at least, on average
_LONGEST = 80  # characters of a value that an error repeats
_TAGS = {str: "str", int: "int", float: "float", bool: "bool", type(None): "null"}
_START = yaml.Mark("", 0, 0, 0, None, 0)
_MERGE = "tag:yaml.org,2002:merge"
_PATTERN = re.compile(r"[A-Za-z][\w@:*?>-]*(?:\[[0-9, -]*\][\w@:*?>-]*)+")  # as in h[1-4] or t0-0:t1-[0,2]@p0
_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # but newlines and tabs


def _no_hint(_: Value) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Source:
    """The file that values are from: its name in messages, and the error of the room that reads it.

    `list_hint` gives the end of the message about a list where a single value belongs.
    """

    name: str
    error: Callable[[str], Exception]
    list_hint: Callable[[Value], str] = _no_hint
    max_bytes: int = MAX_BYTES


@dataclass(frozen=True, slots=True)
class Value:
    """A piece of a document. `key` is its dotted name from the top, empty for the whole.

    `notes` are messages for the author of the document.
    """

    node: yaml.Node
    source: Source
    key: str = ""
    notes: tuple[str, ...] = ()

    @property
    def line(self) -> int:
        """Where it begins, from 1."""
        return int(self.node.start_mark.line) + 1

    @property
    def is_mapping(self) -> bool:
        """Whether it has keys."""
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        """Whether it has elements."""
        return isinstance(self.node, yaml.SequenceNode)

    def error(self, problem: str) -> Exception:
        """What to raise: file, line, key and `problem`."""
        place = f"{self.source.name}, line {self.line}: "
        return self.source.error(f"{place}{self.key}: {problem}" if self.key else place + problem)

    def items(self) -> dict[str, Value]:
        """The members of a mapping, in order; an error when it is none or a key comes twice."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"must be a mapping of keys and values, not {self.in_words()}")
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
        """The elements of a list; an error when it is none."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error(f"must be a list, not {self.in_words()}")
        for number, node in enumerate(self.node.value):
            yield Value(node, self.source, f"{self.key}[{number}]")

    def scalar(self) -> Any:
        """A text, number, yes/no or nothing; an error for anything with parts."""
        self.text()
        try:
            return yaml.constructor.SafeConstructor().construct_object(self.node, deep=True)
        except yaml_limits.CONSTRUCTION_ERRORS:
            raise self.error(f"{self.node.value[:_LONGEST]!r} is not a value that YAML knows") from None

    def text(self) -> str:
        """A scalar as it is written."""
        if not isinstance(self.node, yaml.ScalarNode):
            hint = self.source.list_hint(self) if self.is_list else ""
            raise self.error(f"must be a single value, not {self.in_words()}{hint}")
        return str(self.node.value)

    def in_words(self) -> str:
        """Its kind, or a scalar as it is written, for a message."""
        if self.is_mapping:
            return "a mapping"
        return "a list" if self.is_list else repr(self.node.value[:_LONGEST])


def read_text(path: Path, error: Callable[[str], Exception], max_bytes: int = MAX_BYTES) -> str:
    """The text of a file that people write; raises `error` when it cannot be read, is too long or is no text."""
    try:
        return named_files.read_bytes(path, max_bytes).decode("utf-8")
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise error(f"{path}: is not a text file in UTF-8") from None


def parse(text: str, source: Source) -> Value:
    """The document in `text`; the source's error when it is not YAML, is empty, or is nested too deeply."""
    if len(text) > source.max_bytes:
        raise source.error(f"{source.name}: may have at most {source.max_bytes} characters")
    try:
        node = _from_json(text) or yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "is not valid YAML"
        raise source.error(f"{source.name}{_where(error, text)}: {_unquoted(error, text) or problem}") from None
    except RecursionError:
        raise source.error(f"{source.name}: is nested too deeply") from None
    if node is None:
        raise source.error(f"{source.name}: is empty")
    most = source.max_bytes // _BYTES_OF_VALUE
    if yaml_limits.is_larger_than(node, most):
        raise source.error(f"{source.name}: has more than {most} values, aliases written out")
    _check_pieces(node, source, 0)
    return Value(node, source)


def _from_json(text: str) -> yaml.Node | None:
    """The nodes of JSON in a single line, as programs write it, in a twentieth of the time; None for anything else."""
    if not text.startswith("{") or "\n" in text.rstrip():
        return None
    try:
        return _node(json.loads(text, object_pairs_hook=_mapping_node))
    except (ValueError, RecursionError):  # YAML says what is wrong
        return None


def _mapping_node(pairs: list[tuple[str, Any]]) -> yaml.Node:
    return yaml.MappingNode(
        "tag:yaml.org,2002:map", [(_node(key), _node(value)) for key, value in pairs], _START, _START
    )


def _node(value: Any) -> yaml.Node:
    if isinstance(value, yaml.Node):
        return value
    if isinstance(value, list):
        return yaml.SequenceNode("tag:yaml.org,2002:seq", [_node(element) for element in value], _START, _START)
    word = value if isinstance(value, str) else json.dumps(value)
    return yaml.ScalarNode(f"tag:yaml.org,2002:{_TAGS[type(value)]}", word, _START, _START)


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


def _check_pieces(node: yaml.Node, source: Source, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise Value(node, source).error("is nested too deeply")
    if isinstance(node, yaml.MappingNode):
        _write_out_merges(node, source)
        for key, value in node.value:
            _check_pieces(key, source, depth + 1)
            _check_pieces(value, source, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_pieces(value, source, depth + 1)
    elif found := _UNSHOWN.search(node.value):
        raise Value(node, source).error(f"holds {found[0]!r}, which cannot be shown")


def _write_out_merges(node: yaml.MappingNode, source: Source) -> None:
    """Replace ``<<: *other`` by the keys of that mapping, without those that `node` has itself."""
    own = [(key, value) for key, value in node.value if key.tag != _MERGE]
    if len(own) == len(node.value):
        return
    try:
        yaml.constructor.SafeConstructor().flatten_mapping(node)
    except yaml.YAMLError:
        raise Value(node, source).error("<< takes a mapping, or a list of mappings, by its alias") from None
    names = {key.value for key, _ in own}
    merged = {key.value: (key, value) for key, value in node.value if key.value not in names}
    node.value = [*merged.values(), *own]
