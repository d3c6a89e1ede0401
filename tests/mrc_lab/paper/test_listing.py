"""The listing in Markdown: the score, and every number outside with its ratio and cause."""

from typing import Any

from mrc_lab.paper import score
from mrc_lab.paper.listing import listing


def row(name: str, ratio: float | None, cause: str = "", **changes: Any) -> dict[str, Any]:
    entry = name.partition("@")[0].partition("#")[0]
    given = {
        "figure": "Fig A", "what": entry, "size": None, "place": None, "bound": "", "fitted": False, "listed": True,
    }  # fmt: skip
    standing = "not measured" if ratio is None else "within" if not cause else "differs"
    return {**given, "id": name, "entry": entry, "ratio": ratio, "cause": cause, "good": not cause,
            "standing": standing, **changes}  # fmt: skip


def text_of(*rows: dict[str, Any]) -> str:
    return listing(
        {
            "seeds": [1],
            "numbers": rows,
            "score": score.score(row for row in rows if row["listed"]),
            "beside": score.score(row for row in rows if not row["listed"]),
            "score_by_figure": score.by_figure(rows),
        }
    )


def test_the_score_names_the_seed_and_what_was_fitted() -> None:
    text = text_of(row("a.rate", 1.0), row("a.fit", 1.01, fitted=True), row("a.far", 2.0, "Too fast."))
    assert "With seed 1, 2 of 3 published numbers are within 10 %, and 0 of 0 bounds are met." in text
    assert "Of those within, 1 are among the 1 to which ours was fitted." in text
    assert "| Fig A | 2 of 3 | 1 |" in text


def test_numbers_of_one_entry_and_cause_share_a_row_and_keep_their_ratios() -> None:
    text = text_of(
        row("a.size@2M", 1.5, "Unknown.", what="rate, 2MB", size=2 << 20),
        row("a.size@4M", 0.512, "Unknown.", what="rate, 4MB", size=4 << 20),
        row("a.size@8M", 1.0, what="rate, 8MB", size=8 << 20),
        row("a.flow#1", 0.7, "Quick adaptation.", what="flow, 1 of 2 from the slowest", place=1),
        row("a.one", None, "Not in our run."),
        row("a.most", None, "Too many.", bound="at_most", standing="not met"),
    )
    assert "| Fig A | rate | 2M: 1.5, 4M: 0.512 | Unknown. |" in text
    assert "| Fig A | flow | flow 1: 0.7 | Quick adaptation. |" in text
    assert "| Fig A | a.one | not measured | Not in our run. |" in text
    assert "| Fig A | a.most | not met | Too many. |" in text
    assert "8M" not in text


def test_numbers_beside_the_list_are_counted_apart() -> None:
    text = text_of(row("a.rate", 1.0), row("own", 1.0, listed=False), row("far", 3.0, "Too fast.", listed=False))
    assert "1 of 1 published numbers are within 10 %" in text
    assert "The files have 2 more numbers, which are not on that list; 1 of them are within 10 %." in text
    assert "| Fig A | far | 3 | Too fast. |" in text
