"""No text of a program reaches the C compiler: hostile names in every string of the BMv2 JSON and the P4Info."""

from __future__ import annotations

import asyncio
import functools
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4i, p4r
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from p4runtime_shim.build import BuildOptions
from p4runtime_shim.codegen import generate
from p4runtime_shim.errors import SwitchError
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.program import load_program
from p4runtime_shim.server.pipeline_config import PipelineConfigLoader
from p4runtime_shim.switch import EmbeddedSwitch
from tests.p4runtime_shim import programs
from tests.p4runtime_shim.builder import Builder, call, const, extract, field, header, send_to
from tests.p4runtime_shim.conftest import FAST
from tests.p4runtime_shim.hostile_names import every_string, rename_message, renamed, replaced

MARK = "zqx7"  # stands in every hostile text, and nowhere else
PIECES = (
    "*/ __attribute__((constructor)) static void zqx7(void) { __builtin_trap(); } /*",
    "**//",
    "*/",
    "/*",
    "//",
    '"',
    "'",
    "\\",
    "\\\n",
    "\n",
    '\n#include "/etc/shadow"\n',
    "\n#line 1\n",
    "??/",
    "??)",
    "%s%n",
    "{}",
    "}",
    ";",
    "\0",
    "\x1b[2J",
    "\x7f",
    "\u2028",
    "é",
    "_Pragma(",
    "0x10",
    "../../x",
    "a" * 3000,
)
hostile = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=6).map("".join)
names = st.sampled_from([*programs.NAMES, "fabric"])


@functools.cache
def document(name: str) -> Any:
    return json.loads(programs.FABRIC.read_text() if name == "fabric" else programs.text(name))


@functools.cache
def code_of(name: str) -> str:
    return generate(load_program(json.dumps(document(name)))).code


class Names:
    """Another hostile name for each name."""

    def __init__(self, text: str, more: str = "") -> None:
        self.text, self.more = text, more
        self.given: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        return self.given.setdefault(name, f"{self.text}{MARK}_{len(self.given)}{self.more}")


@given(name=names, text=hostile, more=hostile)
def test_generated_code_is_independent_of_names(name: str, text: str, more: str) -> None:
    given_names = Names(text, more)
    generated = generate(load_program(json.dumps(renamed(document(name), given_names))))
    assert len(given_names.given) > 10
    assert generated.code == code_of(name)
    assert all(item.isprintable() for item in generated.texts)


@given(name=names, text=hostile, choice=st.randoms(use_true_random=False))
def test_hostile_strings_for_keywords_are_refused_or_have_no_effect(name: str, text: str, choice: Any) -> None:
    places = sorted(every_string(document(name)), key=repr)
    changed = replaced(document(name), choice.choice(places), text + MARK)
    try:
        code = generate(load_program(json.dumps(changed))).code
    except SwitchError:
        return
    assert MARK not in code


def watched(folder: Path) -> BuildOptions:
    """A compiler that keeps every C file of a program it is given, and its arguments."""
    folder.mkdir()
    script = folder / "cc"
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/args\n'
        f'for a in "$@"; do case "$a" in program-*.c) cp "$a" {folder}; esac; done\n'
        'exec cc "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return BuildOptions(compiler=str(script), flags=("-O0", "-Werror"))


@pytest.mark.second_ring
@pytest.mark.parametrize("text", ["**//" + PIECES[0], '"\n#include "/etc/shadow"\n', "\\\n??/\0"])
def test_hostile_names_compile_like_harmless_ones(text: str, tmp_path: Path) -> None:
    options = watched(tmp_path / "compiler")
    programs_ = PipelineConfigLoader(lambda source: Pipeline.load(source, cache=tmp_path / "cache", options=options))
    for name in ("copies", "firewall"):
        pushed = Names(text)
        info = text_format.Parse((programs.FOLDER / f"{name}.p4info.txtpb").read_text(), p4i.P4Info())
        rename_message(info, pushed)
        data = json.dumps(renamed(document(name), pushed)).encode()
        config = asyncio.run(programs_.realize(p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=data)))
        with EmbeddedSwitch(config.pipeline, ports=range(8), seed=1) as switch:
            switch.set_logging(trace=True)
            switch.receive(1, bytes(64), 1)
            assert any(MARK in line.text for line in switch.take_log()), "the trace knows the program's names"
    sources = sorted((tmp_path / "compiler").glob("program-*.c"))
    assert len(sources) == 2
    assert {path.read_text() for path in sources} == {code_of("copies"), code_of("firewall")}
    assert MARK not in (tmp_path / "compiler" / "args").read_text()
    assert not any(MARK in str(path) for path in tmp_path.rglob("*"))


def test_an_annotation_containing_a_comment_end_builds(cache: Path) -> None:
    builder = Builder()
    builder.run(builder.action("a*/b", [send_to(1)]))
    Pipeline.load(builder.text(), cache=cache, options=FAST)


def test_texts_are_logged_whole_on_one_line() -> None:
    builder = Builder()
    builder.header_type("h_t", [("a", 8)])
    builder.header("h", "h_t")
    builder.state("first\nstate", [extract("h")])
    message = {"type": "string", "value": 'a "quoted" %n {} \n line'}
    values = {"type": "parameters_vector", "value": [field("h", "a")]}
    failed = call("assert", {"type": "expression", "value": {"op": "d2b", "left": None, "right": const(0)}}, line=7)
    failed["source_info"]["source_fragment"] = "x" * 100_000
    builder.run(builder.action("act", [call("log_msg", message, values), call("add_header", header("h")), failed]))
    with EmbeddedSwitch(Pipeline.load(builder.text()), ports=(1, 2), seed=1) as switch:
        switch.set_logging(trace=True)
        switch.receive(1, b"\x2a" * 60, 1)
        lines = [line.text for line in switch.take_log()]
    assert "packet 1: parser state first\\nstate at byte 0" in lines
    assert 'a "quoted" %n 42 \\n line' in lines
    assert any(line.startswith("assert failed: xxx") and len(line) <= 1000 for line in lines)
