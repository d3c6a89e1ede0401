import itertools

import pytest

from mrc_lab.errors import FileError
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files.document import overlay, parse, without


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
        ("x" * (1 << 20 | 1), "at most"),
        (BOMB, "has more than 100000 values, aliases written out"),
        ("a: &a {b: *a}", "has more than 100000 values, aliases written out"),
    ],
)
def test_invalid_yaml_is_refused(text, message):
    with pytest.raises(FileError, match=message):
        parse(text, "file.yaml")


def test_duplicate_and_empty_keys_are_refused_with_their_line():
    with pytest.raises(FileError, match="line 2: a: is given twice"):
        parse("a: 1\na: 2\n", "f").items()
    with pytest.raises(FileError, match="a key must be a word"):
        parse("[1]: 2\n", "f").items()


@pytest.mark.parametrize("value", ["!!bool y", "!!int ''", "!!int x", "!!float x", "!!timestamp x", "2001-13-45"])
def test_values_not_matching_their_tag_are_refused(value):
    with pytest.raises(FileError, match=r"line 1: a: .* is not a value that YAML knows"):
        parse(f"a: {value}", "f").items()["a"].scalar()


def test_nodes_of_the_wrong_type_are_refused():
    document = parse("a: 1\nb: [1]\nc: {d: 1}\n", "f").items()
    with pytest.raises(FileError, match="a: must be a mapping"):
        document["a"].items()
    with pytest.raises(FileError, match="c: must be a list, not a mapping"):
        list(document["c"].elements())
    with pytest.raises(FileError, match="b: must be a single value, not a list"):
        document["b"].text()


def test_overlay_merges_mappings_and_replaces_the_rest():
    lower = parse("a: {b: 1, c: 2}\nd: [1, 2]\ne: {kind: x, y: 1}\n", "f")
    upper = parse("a: {c: 3}\nd: [4]\ne: {kind: z}\nn: 5\n", "f")
    merged = overlay(lower.node, upper.node)
    found = type(lower)(merged, "f").items()
    assert {name: value.text() for name, value in found["a"].items().items()} == {"b": "1", "c": "3"}
    assert [value.text() for value in found["d"].elements()] == ["4"]
    assert list(found["e"].items()) == ["kind"]
    assert found["n"].text() == "5"
    assert found["a"].items()["c"].line == 1
    assert list(type(lower)(without(merged, "a", "e"), "f").items()) == ["d", "n"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "workload: [{kind: write_bw, pairs: h1>h3}]",
            "for several at once write workloads, each with a name; .*variants",
        ),
        (
            "workload: {kind: write_bw, pairs: h1>h3}\ntransport: {type: [mrc, rc]}",
            r"write variants: \[\{name: mrc, transport: \{type: mrc\}\}, \{name: rc, transport: \{type: rc\}\}\]",
        ),
        (
            "workload: {kind: write_bw, pairs: h1>h3, message: [64K, 1M, 2M]}",
            r"\{name: 64K, workload: \{message: 64K\}\}, .*, \.\.\.\]",
        ),
    ],
)
def test_lists_where_one_value_is_meant_are_refused_with_what_to_write(text, message):
    with pytest.raises(FileError, match=message):
        load_text(f"fabric: {{hosts: 4}}\nduration: 1ms\n{text}\n")


@pytest.mark.parametrize(
    ("transport", "hint"),
    [
        ("{congestion: dcqcn}", "Or, for dcqcn, write type: rc beside it"),
        ("{type: rc, congestion: nscc}", "Or, for nscc, write type: mrc beside it"),
    ],
)
def test_a_congestion_control_of_the_other_type_says_which_type_it_needs(transport, hint):
    with pytest.raises(FileError, match=hint):
        load_text(
            f"fabric: {{hosts: 4}}\nduration: 1ms\nworkload: {{kind: write_bw, pairs: h1>h3}}\ntransport: {transport}\n"
        )


@pytest.mark.parametrize(
    "text",
    [
        "workload: {kind: permutation}\nreport: [{metric: throughput, of: {flows: 'h[12]>*'}}]",
        "workload: {kind: write_bw, pairs: h1>h3}\nreport: [{metric: throughput, of: {flows: 'h[1>*'}}]",
        "workload: {kind: write_bw, pairs: h1>h3}\nreport: [{metric: link_throughput, of: {link: 'h{1,2}@p0'}}]",
        "workload: {kind: write_bw, pairs: h1>h3}\nsizes: [4K, 8K]\npublished: {numbers: [{title: a,"
        " metric: throughput, of: {variant: '4[K'}, sizes: [4K, 8K], values: [1G, 2G], certainty: D}]}",
    ],
)
def test_patterns_of_metrics_that_nobody_can_read_are_refused_before_the_run(text):
    with pytest.raises(FileError, match=r"h\[12\]|bracket|braces|in brackets"):
        load_text(f"fabric: {{hosts: 4}}\nduration: 1ms\n{text}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "workload: {kind: permutation}\nreport: [{metric: throughput, of: {flows: 'h[1-16]>*'}}]",
            r"means 16 numbers, but no name has 5-16",
        ),
        (
            "workloads: [{name: a, kind: permutation, hosts: 'h[1-2]'}, {name: b, kind: write_bw, pairs: h3>h4}]\n"
            "report: [{metric: throughput, of: {flows: 'h[1-3]>*'}}, {metric: throughput, of: {flows: 'a/h[1-3]>*'}}]",
            r"'a/h\[1-3\]>\*' means 3 numbers, but no name has 3",
        ),
        (
            "workload: {kind: write_bw, pairs: h1>h3}\nsizes: [4K, 8K]\npublished: {numbers: [{title: a,"
            " metric: throughput, of: {variant: '[4,8,16]K'}, sizes: [4K, 8K], values: [1G, 2G], certainty: D}]}",
            r"means 3 numbers, but no name has 16",
        ),
    ],
)
def test_numbers_of_which_some_are_missing_are_refused_wherever_names_are_chosen(text, message):
    with pytest.raises(FileError, match=message):
        load_text(f"fabric: {{hosts: 4}}\nduration: 1ms\n{text}\n")


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("t1-0:t0-0@p0>", "write the lower end first, t0-0:t1-0@p0> for upwards, t0-0:t1-0@p0< for downwards"),
        ("t1-*:t0-0@p0<", "write the lower end first"),
        ("h1@p0<>", "ends with <>: write > for upwards, < for downwards, and none for both"),
        ("h1@p0>>", "ends with >>"),
    ],
)
def test_directions_that_may_mean_the_other_one_are_refused(link, message):
    with pytest.raises(FileError, match=message):
        load_text(
            "fabric: {t0: 2, t1: 2, hosts: 4}\nduration: 1ms\nworkload: {kind: write_bw, pairs: h1>h3}\n"
            f"report: [{{metric: link_throughput, of: {{link: '{link}'}}}}]\n"
        )


@pytest.mark.parametrize("link", ["t1-0:t0-0@p0", "t0-0:t1-0@p0>", "h*@p0<", "*"])
def test_links_may_be_named_from_either_end_where_both_directions_are_meant(link):
    load_text(
        "fabric: {t0: 2, t1: 2, hosts: 4}\nduration: 1ms\nworkload: {kind: write_bw, pairs: h1>h3}\n"
        f"report: [{{metric: link_throughput, of: {{link: '{link}'}}}}]\n"
    )
