"""The layers of the engine (docs/switch.md): a file includes and calls only its own layer and those below."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from p4runtime_shim.build import ENGINE_SOURCES

LAYERS = ("wire", "queues", "pipeline", "device", "driver")  # the lowest first
SHARED = ("switch.h", "wide.h")  # beside the folders; whatever layer a function of switch.h is in

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
_FUNCTION = re.compile(r"^(?!static|typedef|SW_INLINE)[a-z][\w ]*[ *](\w+)\([^;{}]*\)[^;{}]*([;{])", re.MULTILINE)
_CALL = re.compile(r"\b(\w+)\(")


def breaches(engine: Path) -> Iterator[str]:
    """What is wrong with the sources, a sentence each."""
    texts = {path.relative_to(engine): _COMMENT.sub("", path.read_text()) for path in engine.rglob("*.[ch]")}
    functions = {
        name: path.parts[0]
        for path, text in texts.items()
        for name, end in _FUNCTION.findall(text)
        if end == "{" and path.suffix == ".c"
    }
    for path, text in sorted(texts.items()):
        layer = path.parts[0]
        if layer not in (*LAYERS, *SHARED):
            yield f"{path} is in no layer"
            continue
        for name in _INCLUDE.findall(text):
            folder = name.split("/")[0]
            if "/" in name and (folder not in LAYERS or _above(folder, layer)):
                yield f"{path} includes {name}"
        if path.suffix == ".h" and layer in LAYERS:
            for name, end in _FUNCTION.findall(text):
                if end == ";" and functions.get(name) != layer:
                    yield f"{path} declares {name}() of {functions.get(name)}"
        if path.suffix == ".c":
            for name in sorted({*_CALL.findall(text)}):
                if name in functions and _above(functions[name], layer):
                    yield f"{path} calls {name}() of {functions[name]}"


def _above(one: str, other: str) -> bool:
    """Whether a layer is above another, where files that all share are below all."""
    return one in LAYERS and (other in SHARED or LAYERS.index(one) > LAYERS.index(other))


def test_no_layer_knows_one_above_it() -> None:
    assert list(breaches(ENGINE_SOURCES)) == []


@pytest.mark.parametrize(
    ("file", "planted", "breach"),
    [
        ("wire/ports.c", '#include "queues/queues.h"', "wire/ports.c includes queues/queues.h"),
        ("wire/ports.c", '#include "../queues/queues.h"', "wire/ports.c includes ../queues/queues.h"),
        ("switch.h", '#include "wire/wire.h"', "switch.h includes wire/wire.h"),
        (
            "queues/queues.h",
            "int sw_run_ingress(struct sw *sw);",
            "queues/queues.h declares sw_run_ingress() of pipeline",
        ),
        (
            "pipeline/meter.c",
            "void planted(struct sw *sw) { sw_tick(sw, 0); }",
            "pipeline/meter.c calls sw_tick() of device",
        ),
        ("extra/more.c", "int sw_more;", "extra/more.c is in no layer"),
    ],
)
def test_a_planted_breach_is_found(tmp_path: Path, file: str, planted: str, breach: str) -> None:
    engine = tmp_path / "engine"
    shutil.copytree(ENGINE_SOURCES, engine)
    (engine / file).parent.mkdir(exist_ok=True)
    with (engine / file).open("a") as out:
        out.write(f"\n{planted}\n")
    assert list(breaches(engine)) == [breach]
