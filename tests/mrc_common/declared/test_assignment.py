"""Dotted keys and their values, as a command line gives them."""

from __future__ import annotations

import pytest

from mrc_common.declared.assignment import assign, holds, named_key, numbered_key, parse_assignment
from mrc_common.declared.field_types import a_size
from tests.mrc_common.declared.parsed import DocumentError, parse, plain


def laid(text: str, setting: str) -> object:
    found = parse_assignment(setting, DocumentError)
    return plain(assign(parse(text, "file"), found.key, found.values[0]))


@pytest.mark.parametrize(
    ("setting", "texts"),
    [
        ("a.b=1M,4M", ("1M", "4M")),
        ("a = 1 , 2", ("1", "2")),
        ("pairs=[h1>h2],[h1>h2,h3>h4]", ("[h1>h2]", "[h1>h2,h3>h4]")),
        ("load={kind: x, n: 1},{kind: y}", ("{kind: x, n: 1}", "{kind: y}")),
        ("share=1%", ("1%",)),
    ],
)
def test_values_are_separated_by_commas_outside_brackets(setting: str, texts: tuple[str, ...]):
    assert parse_assignment(setting, DocumentError).texts == texts


@pytest.mark.parametrize(
    "setting",
    ["", "a", "a=", "=1", "a..b=1", "a=[1", "a=1]", "a=1] ,[2", "a=1,1", "a={", "a=h[1-4", "a=[h[1]", "a=h[1],,h[2]"],
)
def test_malformed_assignments_are_refused(setting: str):
    with pytest.raises(DocumentError, match="--set"):
        parse_assignment(setting, DocumentError)


@pytest.mark.parametrize(
    ("values", "texts", "plain_values"),
    [
        ("h[1-4]@p*", ("h[1-4]@p*",), ["h[1-4]@p*"]),
        ("h[1,2]@p0,h[3-8]@p0", ("h[1,2]@p0", "h[3-8]@p0"), ["h[1,2]@p0", "h[3-8]@p0"]),
        ("*@p0,t0-*:t1-[0-3]@p1", ("*@p0", "t0-*:t1-[0-3]@p1"), ["*@p0", "t0-*:t1-[0-3]@p1"]),
        ("[h[1-4]>h5,h6>h7],[h1>h2]", ("[h[1-4]>h5,h6>h7]", "[h1>h2]"), [["h[1-4]>h5", "h6>h7"], ["h1>h2"]]),
        ('"h[1,2]@p0",h[3]', ('"h[1,2]@p0"', "h[3]"), ["h[1,2]@p0", "h[3]"]),
        ("h[1-2],7", ("h[1-2]", "7"), ["h[1-2]", 7]),
    ],
)
def test_patterns_need_no_quotes(values: str, texts: tuple[str, ...], plain_values: list[object]):
    found = parse_assignment(f"a={values}", DocumentError)
    assert found.texts == texts
    laid_in = [plain(assign(parse("a: 0", "file"), "a", node)) for node in found.values]
    assert laid_in == [{"a": value} for value in plain_values]


def test_assigning_replaces_or_adds_a_value_in_a_copy():
    document = parse("a: {b: 1, c: 2}\nd: 3", "file")
    assert laid("a: {b: 1, c: 2}\nd: 3", "a.b=7") == {"a": {"b": 7, "c": 2}, "d": 3}
    assert laid("a: {b: 1}", "a.x.y=7") == {"a": {"b": 1, "x": {"y": 7}}}
    assert laid("a: [{b: 1}, {b: 2}]", "a.1.b=7") == {"a": [{"b": 1}, {"b": 7}]}
    named = {"a": [{"name": "x", "b": 1}, {"name": "y", "b": 7}]}
    assert laid("a: [{name: x, b: 1}, {name: y, b: 2}]", "a.y.b=7") == named
    assign(document, "a.b", parse_assignment("a.b=7", DocumentError).values[0])
    assert plain(document) == {"a": {"b": 1, "c": 2}, "d": 3}


@pytest.mark.parametrize(
    ("key", "problem"),
    [("a.b.c", "cannot|can be set"), ("l.2", "2 elements"), ("l.x", "place in"), ("n.z.a", "and called x, y")],
)
def test_an_unknown_key_is_refused(key: str, problem: str):
    with pytest.raises(DocumentError, match=problem):
        laid("a: {b: 1}\nl: [1, 2]\nn: [{name: x}, {}, {name: y}]", f"{key}=1")


def test_an_error_in_a_value_names_the_line_it_replaces() -> None:
    found = parse_assignment("b.message=big", DocumentError)
    document = assign(parse("a: 1\nb:\n  message: 5\n"), found.key, found.values[0])
    with pytest.raises(DocumentError, match=r"^file, line 3: b\.message: must be a size"):
        a_size().read(document.items()["b"].items()["message"])


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("a: {b: 1}", "a.b", True),
        ("a: {c: 1}", "a.b", False),
        ("a: {kind: x}", "a.b", True),  # replaces the section, and with it what it held
        ("a: 1", "a.b", True),
        ("c: 1", "a.b", False),
    ],
)
def test_assignments_overridden_by_a_variant_are_detected(text: str, key: str, expected: bool):
    assert holds(parse(text, "file").node, key) is expected


def test_a_number_means_a_place_even_if_an_element_has_that_name() -> None:
    document = parse("workloads: [{name: '1', a: 1}, {name: b, a: 2}, {a: 3}]", "file")
    for key, number, name in (
        ("workloads.1.a", "workloads.1.a", "workloads.b.a"),
        ("workloads.b.a", "workloads.1.a", "workloads.b.a"),
        ("workloads.2.a", "workloads.2.a", "workloads.2.a"),
        ("workloads.c.a", "workloads.c.a", "workloads.c.a"),
        ("workloads.9.a", "workloads.9.a", "workloads.9.a"),
    ):
        assert (numbered_key(document.node, key), named_key(document.node, key)) == (number, name)
