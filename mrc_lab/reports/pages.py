"""HTML pages from the templates in ``templates/``: the report of a run, a comparison, the page of all experiments.

Names, titles and notes come from files that others may have written, so templates escape whatever is not ``Markup``;
only our own drawings are. A name that a template asks for and nobody gave is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from mrc_lab.reports.reported_metrics import side_by_side
from mrc_lab.reports.verdicts import differs, show

RELATIONS = {"at_least": "at least", "at_most": "at most", "about": "about"}


def render(template: str, **values: Any) -> str:
    """The page that ``templates/<template>.html.j2`` makes of `values`."""
    return _ENVIRONMENT.get_template(f"{template}.html.j2").render(**values)


def published(one: Mapping[str, Any]) -> str:
    """``388.8 Gb/s (385.9 to 389.6) [D]``, as far as there is any of it, of an expectation of a summary."""
    number = show(one["published"], one["unit"]) if one["published"] is not None else ""
    text = f"({one['published_text']})" if number and one["published_text"] else one["published_text"]
    return " ".join(filter(None, [number, text, f"[{one['certainty']}]" if one["certainty"] else ""]))


def expected(one: Mapping[str, Any]) -> str:
    """``at least 190 Gb/s ± 5 %``, of an expectation of a summary."""
    within = f" ± {100 * one['tolerance']:.3g} %" if one["tolerance"] else ""
    return f"{RELATIONS[one['relation']]} {show(one['expected'], one['unit'])}{within}"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mrc_lab.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "expected": expected,
        "published": published,
        "quantity": show,
        "side_by_side": side_by_side,
    }
    environment.tests["far"] = differs
    return environment


_ENVIRONMENT = _environment()
