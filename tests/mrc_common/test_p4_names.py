"""Names of a P4 program's objects without those of their controls."""

from __future__ import annotations

from mrc_common.p4_names import by_suffix


def test_a_suffix_that_several_names_have_means_none_of_them() -> None:
    assert by_suffix(["I.a.t", "I.b.t", "u", "I.u.v"]) == {
        "a.t": "I.a.t",
        "I.a.t": "I.a.t",
        "b.t": "I.b.t",
        "I.b.t": "I.b.t",
        "u": "u",
        "v": "I.u.v",
        "u.v": "I.u.v",
        "I.u.v": "I.u.v",
    }


def test_a_whole_name_is_its_own_though_another_ends_so() -> None:
    assert by_suffix(["t", "I.t"]) == {"t": "t", "I.t": "I.t"}
