"""Pages that need no fabric: marks, links, and the commands that run anywhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from mrc_lab.cli.main import group
from mrc_lab.experiments.files import load_text
from tests.docs.blocks import DOCS, ELSEWHERE, KINDS, PAGES, ROOT, Block, blocks
from topologies import loader

_OF_MRC = re.compile(r"(sudo )?(mrc|make (demo|run|paper|clean))\b")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


@pytest.mark.second_ring
@pytest.mark.parametrize("block", blocks("sh anywhere"), ids=str)
def test_shell_blocks_marked_anywhere_succeed(block: Block) -> None:
    result = subprocess.run(
        ["sh", "-e", "-c", block.text], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.second_ring
@pytest.mark.parametrize("block", blocks("python anywhere"), ids=str)
def test_python_blocks_marked_anywhere_succeed(block: Block, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", block.text], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


TUTORIALS = sorted({block.page for block in blocks("sh tutorial", "python tutorial")})


@pytest.mark.second_ring
@pytest.mark.parametrize("page", TUTORIALS)
def test_a_tutorial_runs_in_its_order_in_one_folder(page: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for block in blocks("sh tutorial", "python tutorial", "python file", "yaml file"):
        if block.page != page:
            continue
        if block.file:
            (tmp_path / block.file).write_text(block.text)
            continue
        command = ["sh", "-e", "-c"] if block.kind.startswith("sh") else [sys.executable, "-c"]
        result = subprocess.run(
            [*command, block.text], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, f"{block}: {result.stdout}{result.stderr}"


def test_every_tutorial_begins_with_two_commands_and_ends_with_a_result() -> None:
    """What the reader makes is computed by a block that a test runs: here, or on the fabric of test_on_fabric.py."""
    tutorials = sorted((DOCS / "tutorials").glob("*.md"))
    assert len(tutorials) == 5
    for tutorial in tutorials:
        found = [block for block in blocks() if block.page == str(tutorial.relative_to(DOCS))]
        assert sum(len(block.commands()) for block in found[:1]) == 1
        assert found[0].kind == "sh elsewhere"
        assert {"python tutorial", "python fabric"} & {block.kind for block in found[2:]}


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_experiment_files_on_pages_are_valid(block: Block) -> None:
    assert load_text(block.text, source=str(block)).cases


@pytest.mark.parametrize("block", blocks("yaml fabric"), ids=str)
def test_fabric_files_on_pages_are_valid(block: Block) -> None:
    assert loader.load_text(block.text, source=str(block)).nics


@pytest.mark.parametrize("block", blocks(), ids=str)
def test_every_block_is_marked_with_where_it_runs(block: Block) -> None:
    assert block.kind in KINDS
    if block.kind == "sh elsewhere":
        for command in block.commands():
            place = ELSEWHERE[command]
            assert not place.startswith("tests/") or (ROOT / place).is_file()


def mrc_of(command: str) -> list[str]:
    """The words behind mrc of a command that is mrc's, or make's for mrc."""
    words = shlex.split(command.partition(" >")[0])
    words = words[words[:1] == ["sudo"] :]
    if words[:1] == ["make"]:
        done = subprocess.run(
            ["make", "-n", "--no-print-directory", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=True
        )
        words = shlex.split(done.stdout.splitlines()[-1].replace("$(nproc)", "2"))
        words[:1] = [Path(words[0]).name]
    assert words[:1] == ["mrc"]
    return words[1:]


@pytest.mark.parametrize("command", [one for one in ELSEWHERE if _OF_MRC.match(one)])
def test_commands_run_elsewhere_parse(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = mrc_of(command)
    monkeypatch.chdir(tmp_path)
    for name in ("token", "cert.pem", "key.pem", "trial.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    parsed = group
    context = parsed.make_context("mrc", words)
    while isinstance(parsed, click.Group):
        name, parsed, words = parsed.resolve_command(context, words)
        assert parsed is not None
        context = parsed.make_context(name, words, parent=context)  # a UsageError says what is wrong


def test_the_list_of_commands_run_elsewhere_matches_the_pages() -> None:
    assert set(ELSEWHERE) == {command for block in blocks("sh elsewhere") for command in block.commands()}


@pytest.mark.parametrize("page", PAGES)
def test_links_have_existing_targets(page: str) -> None:
    text = (DOCS / page).read_text()
    for target in _LINK.findall(text):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        path = (DOCS / page).parent / name if name else DOCS / page
        assert path.is_file(), f"{page} links to {target}"
        if anchor:
            assert anchor in anchors(path), f"{page} links to {target}"


def test_the_index_lists_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    pages = [str(path.relative_to(DOCS)) for path in (*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md"))]
    assert not [page for page in pages if page != "README.md" and f"({page})" not in index]


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
