"""Tooltips of the glossary's terms."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docs_site.glossary import Glossary

PAGE = """# Glossary

| term | meaning | more |
|---|---|---|
| queue pair (QP), QPN | One end of a *connection* ([verbs](verbs.md)), by `qpn`. | x |
| path | The way. | x |
| limping link | A link that is up. [C/I] | x |
"""


@pytest.fixture
def glossary(tmp_path: Path) -> Glossary:
    (tmp_path / "glossary.md").write_text(PAGE)
    return Glossary.read(tmp_path / "glossary.md")


def test_abbreviations_and_phrases_are_terms_and_plain_words_are_not(glossary: Glossary) -> None:
    assert set(glossary.terms) == {"queue pair", "QP", "QPN", "limping link"}


def test_a_tooltip_is_plain_text(glossary: Glossary) -> None:
    assert glossary.terms["QPN"][0] == "One end of a connection (verbs), by qpn."
    assert glossary.terms["limping link"][0] == "A link that is up."


def test_a_page_gets_the_terms_that_it_uses(glossary: Glossary) -> None:
    added = glossary.abbreviations("A limping link, a QPS.", "../glossary.html")
    assert "*[limping link]: A link that is up." in added
    assert 'data-glossary="../glossary.html"' in added
    assert "QP]" not in added
    assert not glossary.abbreviations("Nothing.", "glossary.html")


def test_every_term_leads_to_an_anchor_of_the_page(glossary: Glossary) -> None:
    page = glossary.with_anchors(PAGE)
    assert all(f'<span id="{anchor}"></span>' in page for _, anchor in glossary.terms.values())


def test_the_projects_own_glossary_explains_what_pages_use() -> None:
    terms = Glossary.read(Path(__file__).parents[3] / "docs/glossary.md").terms
    assert {"MRC", "RDMA", "EV", "SRv6", "uSID", "NSCC", "SACK", "PSN", "queue pair", "entropy value"} <= set(terms)
    assert all(meaning and "[" not in meaning and "`" not in meaning for meaning, _ in terms.values())
