"""Documents: values that know their line and key, and limits for what strangers write."""

from __future__ import annotations

import itertools

import pytest

from tests.mrc_common.declared.parsed import DocumentError, parse, plain


def test_every_node_knows_its_line_and_key():
    document = parse("a:\n  b:\n    - 1\n    - {c: x}\n", "file.yaml")
    element = list(document.items()["a"].items()["b"].elements())[1]
    assert (element.line, element.key) == (4, "a.b[1]")
    assert str(element.items()["c"].error("is wrong")) == "file.yaml, line 4: a.b[1].c: is wrong"


# Ten lines that stand for 9 ** 9 words.
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in itertools.pairwise("abcdefghi")
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a: [1", "line 1|line 2"),
        ("a: *x", "line 1"),
        ("a: {b: h[2-4], c: h1}", 'line 1: within braces or a list a name .* stands in quotes: write "h.2-4."$'),
        ("a: {b: 1,\n c: t0-0:t1-[0,2]@p0}", 'line 2: .* write "t0-0:t1-.0,2.@p0"$'),
        ("a: [h1, h[2-4]]", 'write "h.2-4."$'),
        ("a: {b: 1 [2], c: h[1-2]}", "line 1: expected ','"),
        ("a: " + "[" * 60 + "]" * 60, "nested too deeply"),
        ("[" * 3000, "nested too deeply"),
        ("\x00", "not allowed"),
        ('a: "\\0"', "which cannot be shown"),
        ("x" * (1 << 20 | 1), "at most"),
        (BOMB, "has more than 104857 values, aliases written out"),
        ("a: &a {b: *a}", "has more than 104857 values, aliases written out"),
    ],
)
def test_invalid_yaml_is_refused(text, message):
    with pytest.raises(DocumentError, match=message):
        parse(text, "file.yaml")


def test_duplicate_and_empty_keys_are_refused_with_their_line():
    with pytest.raises(DocumentError, match="line 2: a: is given twice"):
        parse("a: 1\na: 2\n", "f").items()
    with pytest.raises(DocumentError, match="a key must be a word"):
        parse("[1]: 2\n", "f").items()


@pytest.mark.parametrize("value", ["!!bool y", "!!int ''", "!!int x", "!!float x", "!!timestamp x", "2001-13-45"])
def test_values_not_matching_their_tag_are_refused(value):
    with pytest.raises(DocumentError, match=r"line 1: a: .* is not a value that YAML knows"):
        parse(f"a: {value}", "f").items()["a"].scalar()


def test_nodes_of_the_wrong_type_are_refused():
    document = parse("a: 1\nb: [1]\nc: {d: 1}\n", "f").items()
    with pytest.raises(DocumentError, match="a: must be a mapping"):
        document["a"].items()
    with pytest.raises(DocumentError, match="c: must be a list, not a mapping"):
        list(document["c"].elements())
    with pytest.raises(DocumentError, match="b: must be a single value, not a list"):
        document["b"].text()


def test_merge_keys_are_written_out_below_own_keys() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc: {<<: *a, x: 5}\nd: {<<: [*a, *b], w: 6}\n"
    found = parse(text, "f").items()
    assert plain(found["c"]) == {"y": 2, "x": 5}
    assert plain(found["d"]) == {"x": 1, "y": 2, "z": 4, "w": 6}
    assert found["c"].items()["y"].line == 1
    with pytest.raises(DocumentError, match="f, line 1: << takes a mapping"):
        parse("a: {<<: 5}", "f")
