"""The list of published numbers: what is recorded of it stays, or has left with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_lab.published import NUMBERS, PublishedList, load, read

RECORDED = Path(__file__).with_name("recorded_numbers.txt")


def lines(published: PublishedList) -> set[str]:
    return {f"{one.id} {one.value:g} {one.unit} {one.bound or 'value'}" for one in published.numbers.values()}


def differences(published: PublishedList) -> list[str]:
    """What the list has otherwise than the recorded one, without what left with a reason."""
    recorded, now = set(RECORDED.read_text().splitlines()), lines(published)
    left = {one.id for one in published.left if one.reason.strip()}
    gone = {line for line in recorded - now if line.split()[0] not in left}
    both = {f"left, and on the list: {name}" for name in left & set(published.numbers)}
    return [*sorted(gone), *sorted(both), *sorted(f"new: {line}" for line in now - recorded)]


def test_every_recorded_number_is_listed_or_removed_with_a_reason():
    assert differences(load()) == []


LATENCY = "      - {id: sec521.latency_t0, what: latency of 2 bytes below one T0, value: 5.09}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("value: 6.54", "value: 6.6", id="another value"),
        pytest.param(LATENCY, "", id="gone without a word"),
        pytest.param("bound: at_most, unit: count", "unit: count", id="a bound made a value"),
        pytest.param(
            "left: []", "left: [{id: fig11.worst, value: 1, reason: other}]", id="listed as removed, yet present"
        ),
    ],
)
def test_a_change_without_a_reason_is_detected(before: str, after: str):
    text = NUMBERS.read_text()
    assert before in text
    assert differences(read(text.replace(before, after)))


def test_a_number_may_be_removed_with_a_reason():
    text = NUMBERS.read_text().replace(LATENCY, "")
    reason = "left: [{id: sec521.latency_t0, value: 5.09, reason: the authors withdrew it}]"
    assert differences(read(text.replace("left: []", reason))) == []
    assert differences(read(text.replace("left: []", reason.replace("the authors withdrew it", "''"))))


def test_sizes_flows_and_units_are_read():
    numbers = load().numbers
    assert numbers["sec521.latency_t0"].value == 5090
    assert numbers["fig16.mrc@512M"].value == 293.5e9
    assert numbers["fig18a.flow#1"].value == 50.9e9
    assert numbers["fig04.per_qp"].bound == "at_most"
    assert "fig16.mrc@1G" not in numbers


def test_duplicate_ids_and_unknown_units_and_keys_are_refused():
    text = NUMBERS.read_text()
    with pytest.raises(ValueError, match=r"fig11\.worst is given twice"):
        read(text.replace("fig12.worst", "fig11.worst"))
    with pytest.raises(ValueError, match="unknown key walue"):
        read(text.replace("value: 5.09", "walue: 5.09"))
    with pytest.raises(ValueError, match="Mbit is no unit"):
        read(text.replace("unit: us", "unit: Mbit"))
