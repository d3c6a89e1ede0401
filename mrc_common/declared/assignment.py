"""Values for dotted keys, as a command line gives them (``fabric.planes=1,2,4``), laid into a document.

Values are YAML, separated by commas outside of brackets: ``workload.pairs=[h1>h2],[h1>h2,h3>h4]`` are two. Patterns of
names need no quotes, though YAML wants them: ``faults.cut.link=h[1-4]@p*,*@p0`` are two, as are their lists. Between
dots a number is a place in a list, from 0, and a word the element that has this `name`. A value that is laid in takes
the place of what it replaces in every error message, or that of the section it is added to.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import yaml

from mrc_common.declared.document import Value
from mrc_common.declared.overlay import name_of

_TEXT, _SEQUENCE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:seq"
_PATTERN = re.compile(
    r"(?!\[)(?=.*[*?\[])[\w*?@:.<>/+-]*(?:\[[\d,\s-]+\][\w*?@:.<>/+-]*)*"
)  # of topologies.name_patterns


@dataclass(frozen=True, slots=True)
class Assignment:
    """A dotted key with one value or more. `texts` are the values as they were written."""

    key: str
    values: tuple[yaml.Node, ...]
    texts: tuple[str, ...]


def parse_assignment(text: str, error: Callable[[str], Exception]) -> Assignment:
    """The assignment in ``KEY=VALUE,VALUE``; raises `error` when it is none."""
    key, equals, values = text.partition("=")
    key = key.strip()
    if not equals or not all(key.split(".")) or not values.strip():
        raise error(f"--set {text}: write a key and its values, as in fabric.planes=1,2,4")
    flow = f"[{values}]"
    node = _composed(flow)
    if isinstance(node, yaml.SequenceNode) and node.end_mark.index == len(flow):
        texts = tuple(flow[value.start_mark.index : value.end_mark.index].strip() for value in node.value)
    else:
        texts = tuple(_pieces(values))
        nodes = [_with_patterns(one) for one in texts]
        if None in nodes:
            raise error(f"--set {text}: {values!r} are not values that YAML knows")
        node = yaml.SequenceNode(_SEQUENCE, nodes)
    for number, one in enumerate(texts):
        if one in texts[:number]:
            raise error(f"--set {text}: {one} is given twice")
    return Assignment(key, tuple(node.value), texts)


def _composed(text: str) -> yaml.Node | None:
    """The YAML in a text; None if it is none."""
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None


def _pieces(text: str) -> list[str]:
    """The parts of a text between commas outside of brackets and quotes, bare."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and not parts[-1].strip():
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += letter
    return [part.strip() for part in parts]


def _with_patterns(text: str) -> yaml.Node | None:
    """A value that may be a pattern of names, or a list with some, without quotes; None if it is neither, nor YAML."""
    if _PATTERN.fullmatch(text):
        return yaml.ScalarNode(_TEXT, text)
    flow = f"[{text}]"
    node = _composed(flow)
    if isinstance(node, yaml.SequenceNode) and node.end_mark.index == len(flow) and len(node.value) == 1:
        only: yaml.Node = node.value[0]
        return only
    if not text.startswith("[") or not text.endswith("]"):
        return None
    inside = [_with_patterns(one) for one in _pieces(text[1:-1])]
    return None if None in inside else yaml.SequenceNode(_SEQUENCE, inside)


def assign(document: Value, key: str, node: yaml.Node) -> Value:
    """The document with `node` at `key`; an error when the key leads through something that has no parts."""
    return Value(_assigned(document, key.split("."), node), document.source, notes=document.notes)


def numbered_key(node: yaml.Node, key: str) -> str:
    """The key with numbers for names of list elements, so that a place has one key."""
    return ".".join(number for number, _ in _parts(node, key))


def named_key(node: yaml.Node, key: str) -> str:
    """The key with names for numbers of list elements that have one: variants know them by that."""
    return ".".join(name for _, name in _parts(node, key))


def _parts(node: yaml.Node, key: str) -> Iterator[tuple[str, str]]:
    """Of each part of a key the number and the name of the list element that it means; otherwise twice what it is."""
    for part in key.split("."):
        number = name = part
        if isinstance(node, yaml.SequenceNode):
            known = list(map(name_of, node.value))
            at = _position(known, part)
            if at < len(known):
                number, name = str(at), known[at] or part
            node = node.value[at] if at < len(known) else yaml.ScalarNode("", "")
        elif isinstance(node, yaml.MappingNode):
            node = next((value for known, value in node.value if known.value == part), yaml.ScalarNode("", ""))
        yield number, name


def holds(node: yaml.Node, key: str) -> bool:
    """Whether a document says something at `key`, or puts something without that key in the place of a section."""
    for name in key.split("."):
        if isinstance(node, yaml.SequenceNode) and not name.isdecimal():
            element = next((one for one in node.value if name_of(one) == name), None)
            if element is None:
                return not all(map(name_of, node.value))
            node = element
            continue
        if not isinstance(node, yaml.MappingNode):
            return True
        found = next((value for known, value in node.value if known.value == name), None)
        if found is None:
            return any(known.value == "kind" for known, _ in node.value)
        node = found
    return True


def _assigned(place: Value, names: list[str], node: yaml.Node) -> yaml.Node:
    """A copy of the piece at `place` with `node` below it; only what lies on the way is copied."""
    if not names:
        return _placed(node, place.node)
    name, *rest = names
    below = Value(place.node, place.source, f"{place.key}.{name}" if place.key else name)
    if isinstance(place.node, yaml.SequenceNode):
        return _in_list(place, below, rest, node, name)
    if not isinstance(place.node, yaml.MappingNode):
        raise below.error(f"is not a key that can be set: above it stands {place.in_words()}")
    pairs = list(place.node.value)
    number = next((n for n, (known, _) in enumerate(pairs) if known.value == name), None)
    if number is None:
        new = _placed(yaml.ScalarNode("tag:yaml.org,2002:str", name), place.node)
        empty = yaml.MappingNode("tag:yaml.org,2002:map", [], place.node.start_mark, place.node.end_mark)
        pairs.append((new, _assigned(Value(empty, place.source, below.key), rest, node)))
    else:
        known, value = pairs[number]
        pairs[number] = known, _assigned(Value(value, place.source, below.key), rest, node)
    return yaml.MappingNode(place.node.tag, pairs, place.node.start_mark, place.node.end_mark)


def _in_list(place: Value, below: Value, rest: list[str], node: yaml.Node, name: str) -> yaml.Node:
    elements = list(place.node.value)
    names = [name_of(element) for element in elements]
    number = _position(names, name)
    if number >= len(elements):
        known = f" and called {', '.join(filter(None, names))}" if any(names) else ""
        raise below.error(f"is not a place in the list: it has {len(elements)} elements, numbered from 0{known}")
    element = Value(elements[number], place.source, below.key)
    elements[number] = _assigned(element, rest, node)
    return yaml.SequenceNode(place.node.tag, elements, place.node.start_mark, place.node.end_mark)


def _position(names: list[str], part: str) -> int:
    """Which of the elements with these names a part of a key means; as many as there are, or more, for none."""
    return int(part) if part.isdecimal() else names.index(part) if part in names else len(names)


def _placed(node: yaml.Node, where: yaml.Node) -> yaml.Node:
    """The same value as if it stood elsewhere."""
    placed = copy.copy(node)
    placed.start_mark, placed.end_mark = where.start_mark, where.end_mark
    if isinstance(node, yaml.MappingNode):
        placed.value = [(_placed(key, where), _placed(value, where)) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        placed.value = [_placed(element, where) for element in node.value]
    return placed
