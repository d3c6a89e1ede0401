"""What is HTML, and what is text that has yet to become it.

Names, titles and notes come from files that others may have written. So nothing is taken for HTML but an :class:`Html`,
and :func:`html` makes one of anything else by escaping it; tables do that with every cell.
"""

from __future__ import annotations

from html import escape


class Html(str):
    """HTML as it stands. Adding to it makes plain text again."""

    __slots__ = ()


def html(text: object) -> Html:
    """`text` as HTML that shows it; what is HTML already stays."""
    return text if isinstance(text, Html) else Html(escape(str(text)))


def span(text: object, kind: str) -> Html:
    """`text` in the style of a class of the page."""
    return Html(f'<span class="{html(kind)}">{html(text)}</span>')


def verdict(word: object) -> Html:
    """A verdict in its colour."""
    return span(word, str(word))
