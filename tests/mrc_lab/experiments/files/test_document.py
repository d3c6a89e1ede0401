"""Text of experiment files, and messages for lists where single values belong."""

import tracemalloc

import pytest

from mrc_lab.errors import FileError
from mrc_lab.experiments.files import load_text


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
        "workload: {kind: permutation}\nreport: [{metric: throughput, of: {flows: '*h[1-2]'}}]",
        "workload: {kind: write_bw, pairs: h1>h3}\nreport: [{metric: throughput, of: {flows: 'h[1>*'}}]",
        "workload: {kind: write_bw, pairs: h1>h3}\nreport: [{metric: link_throughput, of: {link: 'h{1,2}@p0'}}]",
        "workload: {kind: write_bw, pairs: h1>h3}\nsizes: [4K, 8K]\npublished: {numbers: [{title: a,"
        " metric: throughput, of: {variant: '4[K'}, sizes: [4K, 8K], values: [1G, 2G], certainty: D}]}",
    ],
)
def test_patterns_of_metrics_that_nobody_can_read_are_refused_before_the_run(text):
    with pytest.raises(FileError, match=r"h\[12\]|bracket|braces|in brackets|write who writes to whom"):
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
            r"'a/h\[1-3\]' means 3 numbers, but no name has 3",
        ),
        (
            "workload: {kind: permutation}\nreport: [{metric: throughput, of: {flows: 'h1>h[3-6]'}}]",
            r"means 4 numbers, but no name has 5-6",
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


def test_a_pattern_of_flows_lists_no_pairs_of_hosts():
    tracemalloc.start()
    load_text(
        "fabric: {hosts: 2048, t0: 8, t1: 4}\nbackend: scale\nduration: 1ms\nworkload: {kind: permutation}\n"
        "report: [{metric: throughput, of: {flows: 'h[1-9]>*'}}]\n"
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # the names of four million pairs take 250 MB
