"""The score: its denominator is the list, whatever was measured."""

from mrc_lab.paper.score import NO_FILE, NOT_RUN, UNEXPLAINED, by_figure, outside, rows_of, score
from mrc_lab.published import read

LIST = read("""\
groups:
  - figure: Fig A
    file: figa
    unit: Gb/s
    certainty: D
    compared: like with like
    numbers:
      - {id: a.rate, what: rate, value: 100}
      - {id: a.flow, what: flow, flows: [40, 60]}
      - {id: a.low, what: least, value: 10, bound: at_least}
  - figure: Fig B
    file: figb
    unit: us
    certainty: C
    compared: like with like
    numbers:
      - {id: b.size, what: time, sizes: [1M, 2M], values: [5, 6]}
checks: []
left: []
""")


def row(name, standing, cause="", **changes):
    number = LIST.numbers.get(name)
    return {
        "id": name, "what": name, "standing": standing, "cause": cause, "bound": number.bound if number else "",
        "fitted": False, "entry": name.partition("#")[0], **changes,
    }  # fmt: skip


def measured(*rows, name="figa", figure="Fig A"):
    return {name: (figure, rows)}


def test_unmeasured_numbers_count_as_missed():
    found = score(rows_of(LIST, measured(row("a.rate", "within 10 %")), {"figa"}))
    assert (found["values"], found["within"], found["bounds"], found["met"], found["unmeasured"]) == (5, 1, 1, 0, 5)


def test_bounds_and_values_are_counted_separately():
    found = score(rows_of(LIST, measured(row("a.low", "met"), row("a.flow#1", "differs")), {"figa"}))
    assert (found["within"], found["met"]) == (0, 1)


def test_numbers_given_only_in_a_file_are_counted():
    own = row("own", "within 10 %")
    rows = rows_of(LIST, measured(own, name="mine", figure="Mine"), {"mine"})
    assert score(rows)["values"] == 6
    assert by_figure(rows)[-1] | {"figure": "Mine", "values": 1, "within": 1} == by_figure(rows)[-1]


def test_either_of_two_files_sharing_an_entry_may_measure_a_size():
    files = {
        "figb": ("Fig B", [row("b.size@1M", "within 10 %")]),
        "figb2": ("Fig B", [row("b.size@2M", "within 10 %")]),
    }
    assert score(rows_of(LIST, files, set(files)))["within"] == 2


def test_fitted_numbers_are_counted_separately():
    rows = rows_of(LIST, measured(row("a.rate", "within 10 %", fitted=True), row("a.flow#1", "within 10 %")), {"figa"})
    assert (score(rows)["fitted"], score(rows)["fitted_within"], score(rows)["within"]) == (1, 1, 2)


def test_deviations_show_their_cause_or_that_none_is_known():
    rows = rows_of(
        LIST,
        measured(row("a.rate", "differs", "slow"), row("a.flow#1", "differs"), row("a.flow#2", "within 10 %", "x")),
        {"figa"},
    )
    causes = {one["id"]: one["cause"] for one in rows}
    assert causes["a.rate"] == "slow"
    assert causes["a.flow#1"] == UNEXPLAINED
    assert causes["a.flow#2"] == ""
    assert causes["a.low"] == NOT_RUN
    assert causes["b.size@1M"] == NO_FILE


def test_deviations_are_grouped_by_entry_and_cause():
    rows = rows_of(LIST, measured(row("a.flow#1", "differs", "same"), row("a.flow#2", "differs", "same")), {"figa"})
    assert [[one["id"] for one in group] for group in outside(rows)] == [
        ["a.rate"], ["a.flow#1", "a.flow#2"], ["a.low"], ["b.size@1M", "b.size@2M"],
    ]  # fmt: skip
