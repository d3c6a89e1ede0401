"""Every page has one place in the navigation, and every role its tutorial first."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scripts.docs_site import navigation, reference
from scripts.docs_site.pages import Project

ROOT = Path(__file__).resolve().parents[3]
ROLES = ("Researcher", "RDMA engineer", "ML engineer", "P4 learner")


def test_every_page_has_exactly_one_place() -> None:
    listed = Counter(navigation.pages(ROOT))
    assert not [page for page, count in listed.items() if count > 1]
    there = {"index.md" if str(page) == "README.md" else str(page) for page in Project(ROOT).pages()}
    assert set(listed) == there


@pytest.mark.parametrize("role", ROLES)
def test_a_role_begins_with_its_tutorial(role: str) -> None:
    assert navigation.NAVIGATION[role][0] == f"docs/tutorials/{role.lower().replace(' ', '-')}.md"


def test_the_reference_has_the_modules_of_its_page(tmp_path: Path) -> None:
    modules = reference.modules(ROOT / "docs/api.md")
    assert {"mrc_host.verbs", "topologies.clos", "topologies.fabric", "simulation.world", "controller.client"} <= {
        module.name for module in modules
    }
    for module in modules:
        assert module.source in (module.name.replace(".", "/") + ".py", module.name.replace(".", "/") + "/__init__.py")
        assert (ROOT / module.source).is_file()
    assert "(../docs/verbs.md)" in modules[0].text()
    (tab,) = [tab for tab in navigation.tree(ROOT, [module.page for module in modules]) if "Reference" in tab]
    assert {"Python API": [module.page for module in modules]} in tab["Reference"]  # type: ignore[operator]
