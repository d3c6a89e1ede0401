"""One document laid over another; every piece keeps the line it came from."""

from __future__ import annotations

import yaml


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
    """The `name` that an element of a list has; empty when it has none."""
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
