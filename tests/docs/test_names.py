"""What pages say of the project itself: paths that exist, imports between rooms, examples and versions that agree."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import DOCS, PAGES, ROOT, blocks

ROOMS = (
    "controller", "mrc_common", "mrc_host", "mrc_lab", "p4compiler", "p4runtime_shim", "p4src", "simulation",
    "topologies",
)  # fmt: skip
FOLDERS = (*ROOMS, "benchmarks", "docs", "examples", "requirements", "scripts", "tests", "vagrant")
_PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w.*/-]*[\w/]")
_ROW = re.compile(r"^\| `(\w+)` \|.*\|([^|\n]*)\|$", re.MULTILINE)


def paths_on(page: str) -> list[str]:
    """Paths of the project in a page's `code`, tables and text, without what follows a name as in file.py::test."""
    return sorted(set(_PATH.findall((DOCS / page).read_text())))


@pytest.mark.parametrize("page", PAGES)
def test_every_path_on_a_page_exists(page: str) -> None:
    missing = [path for path in paths_on(page) if not any(ROOT.glob(path.rstrip("/")))]
    assert not missing


def test_the_path_pattern_finds_known_paths() -> None:
    found = paths_on("architecture.md")
    assert {"p4src/usid.p4", "mrc_host/transport/paths.py", "topologies/emulation/"} <= set(found)
    assert len(found) > 50


def imports_of(room: str) -> set[str]:
    """The other rooms that a room's modules import, in functions and for types too."""
    found: set[str] = set()
    for file in (ROOT / room).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Import):
                found.update(name.name.partition(".")[0] for name in node.names)
    return found & set(ROOMS) - {room}


def test_packages_import_only_what_the_architecture_page_allows() -> None:
    rows = _ROW.findall((DOCS / "architecture.md").read_text())
    documented = {room: set(re.findall(r"`(\w+)`", cell)) for room, cell in rows}
    assert set(documented) == set(ROOMS)
    for position, (room, _) in enumerate(rows):
        assert documented[room] == imports_of(room), room
        assert documented[room] <= {above for above, _ in rows[:position]}, room


@pytest.mark.parametrize("room", ROOMS)
def test_the_architecture_names_every_package_of_a_room(room: str) -> None:
    text = (DOCS / "architecture.md").read_text()
    folders = {file.relative_to(ROOT / room).parts[0] for file in (ROOT / room).glob("*/**/*.py")} - {"build"}
    assert not [name for name in sorted(folders) if f"`{name}`" not in text and f"{room}/{name}/" not in text]


def annexes() -> list[str]:
    """Packages that the core may not import, by the contract about them."""
    contract = re.search(r"protected_modules = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL)
    assert contract is not None
    return re.findall(r'"([\w.]+)"', contract[1])


def test_the_architecture_lists_the_annexes_that_the_core_may_not_import() -> None:
    section = (DOCS / "architecture.md").read_text().partition("### Annexes")[2].partition("\n## ")[0]
    listed = re.findall(r"`([\w/]+)/`", "".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)))
    assert sorted(name.replace("/", ".") for name in listed) == sorted(annexes())


def test_annexes_use_public_names_of_the_core() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {node.module}.{name.name}"
        for annex in annexes()
        for file in (ROOT / annex.replace(".", "/")).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(annex)
        for name in node.names
        if (node.module or "").partition(".")[0] in ROOMS and re.search(r"(^|\.)_[^_]", f"{node.module}.{name.name}")
    ]
    assert not found


def test_a_class_name_stands_for_one_thing() -> None:
    """As CONTRIBUTING.md says."""
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py") if "proto" not in file.parts]
    names = Counter(name for file in files for name in re.findall(r"^class ([A-Z]\w*)", file.read_text(), re.MULTILINE))
    assert names["EmbeddedSwitch"] == 1
    assert not {name for name, count in names.items() if count > 1}


def test_code_blocks_repeated_in_examples_are_identical() -> None:
    quoted = [block for block in blocks("python anywhere") if block.text in (ROOT / "examples/write.py").read_text()]
    assert [block.page for block in quoted] == ["installation.md"]


def test_the_index_lists_every_decision_record() -> None:
    index = (DOCS / "decisions/README.md").read_text()
    records = sorted(path.name for path in (DOCS / "decisions").glob("0*.md"))
    assert re.findall(r"\((0\d{3}-[\w-]+\.md)\)", index) == records
    for number, name in enumerate(records, 1):
        assert name.startswith(f"{number:04}-")
        assert re.findall(r"^#+ (.*)$", (DOCS / "decisions" / name).read_text(), re.MULTILINE)[1:] == [
            "Context", "Decision", "Consequences", "Think again when",
        ]  # fmt: skip


def test_the_version_is_the_same_everywhere() -> None:
    declared = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert len(declared) == 1
    version = declared[0]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    newest = re.search(r"^## (\S+) - (Unreleased|\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == version


def test_the_readme_lists_every_top_level_folder() -> None:
    table = set(re.findall(r"^\| `(\w+)/` \|", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert set(ROOMS) < table
    assert all(Path(ROOT, folder).is_dir() for folder in table)
