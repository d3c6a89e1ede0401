"""The axis of a file: points laid over every variant."""

import pytest

from mrc_lab.experiments.files import FileError, load_text

AXIS = """\
fabric: {hosts: 4, t0: 2, t1: 2}
workload: {kind: write_bw, pairs: h1>h3, message: 64K}
duration: 60us
variants:
  - {name: mrc}
  - {name: roce, transport: {type: rc}}
axis:
  - {name: 4K, workload: {message: 4K}}
  - {name: 1M, workload: {message: 1M}, duration: 90us}
"""


def test_every_variant_is_combined_with_every_point():
    cases = load_text(AXIS).cases
    assert [(case.name, case.point) for case in cases] == [
        ("mrc.4K", "4K"), ("mrc.1M", "1M"), ("roce.4K", "4K"), ("roce.1M", "1M"),
    ]  # fmt: skip
    assert [(case.transport.type, case.workload.message, case.duration) for case in cases] == [
        ("mrc", 4096, 60_000), ("mrc", 1 << 20, 90_000), ("rc", 4096, 60_000), ("rc", 1 << 20, 90_000),
    ]  # fmt: skip


def test_an_axis_works_without_variants():
    text = AXIS[: AXIS.index("variants:")] + AXIS[AXIS.index("axis:") :]
    assert [case.name for case in load_text(text).cases] == ["4K", "1M"]


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("name: 1M", "name: 4K", "line 9: axis.*there are two points 4K"),
        ("name: 1M", "name: a b", "line 9: axis.*must be letters, digits and"),
        ("duration: 90us}", "title: x}", "line 9: axis.*title: unknown key; a point may change"),
        ("name: roce", "name: mrc.4K", "two cases would be called mrc.4K.4K"),
    ],
)
def test_invalid_axes_are_refused(before, after, problem):
    text = AXIS.replace(before, after)
    if after == "name: mrc.4K":
        text = text.replace("{name: 4K, workload", "{name: 4K.4K, workload")  # mrc and 4K.4K, mrc.4K and 4K
        text = text.replace("name: 1M", "name: 4K")
    with pytest.raises(FileError, match=problem):
        load_text(text)


def test_too_many_cases_are_refused_at_once():
    text = AXIS[: AXIS.index("variants:")]
    for name in ("variants", "axis"):
        text += f"{name}:\n" + "".join(f"  - {{name: {name[0]}{number}}}\n" for number in range(40))
    with pytest.raises(FileError, match="40 variants and 40 points: 1000 cases are the most"):
        load_text(text)
