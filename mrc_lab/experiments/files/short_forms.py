"""Short forms in experiment files, written out while a document is read.

``timing: NAME`` stands for ``timing: {profile: NAME}``. Variants and sweeps are laid over the file afterwards, so that
single values of theirs change those of the file's profile, whichever form that had.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

_LONG = {"timing": "profile"}


def write_out(document: yaml.Node) -> None:
    """Write out the short forms of a whole file and of its variants."""
    for part in _parts(document):
        for place, (key, value) in enumerate(part.value):
            if isinstance(key, yaml.ScalarNode) and key.value in _LONG and isinstance(value, yaml.ScalarNode):
                name = yaml.ScalarNode("tag:yaml.org,2002:str", _LONG[key.value], value.start_mark, value.end_mark)
                mapping = yaml.MappingNode(
                    "tag:yaml.org,2002:map", [(name, value)], value.start_mark, value.end_mark, flow_style=True
                )
                part.value[place] = key, mapping


def _parts(document: yaml.Node) -> Iterator[yaml.MappingNode]:
    """The file itself and its variants."""
    if not isinstance(document, yaml.MappingNode):
        return
    yield document
    for key, value in document.value:
        if isinstance(key, yaml.ScalarNode) and key.value == "variants" and isinstance(value, yaml.SequenceNode):
            yield from (each for each in value.value if isinstance(each, yaml.MappingNode))
