"""What a C header declares, by the compiler's own account: layouts and enumerators from its debugging information, and
the numbers of its macros.

So two headers can be compared although neither may be included with the other.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_ENTRY = re.compile(r"^ <(\w+)><(\w+)>: Abbrev Number: \d+(?: \((DW_TAG_\w+)\))?")
_FIELD = re.compile(r"^\s+<\w+>\s+(DW_AT_\w+)\s*:\s*(.*)")
_FORM = re.compile(r"^(\([^)]*\)[:\s]*)*")  # how a value is encoded
_COMPOSITE = ("DW_TAG_structure_type", "DW_TAG_union_type")


def layouts(lines: Sequence[str], folders: Sequence[Path], scratch: Path, prefix: str = "mrc") -> dict[str, int | str]:
    """Of a source of these `lines`: sizes of structures; offsets, sizes and types of their fields, also nested ones, as
    ``struct mrc_x.field``; and the value of each enumerator. Only of types whose names begin with `prefix`.
    """
    source = scratch / "declarations.c"
    source.write_text("\n".join(lines) + "\n")
    wanted = ["-g", "-gdwarf-4", "-fno-eliminate-unused-debug-types", *[f"-I{folder}" for folder in folders]]
    subprocess.run(["cc", "-std=gnu11", *wanted, "-c", "declarations.c"], cwd=scratch, check=True)
    dump = subprocess.run(
        ["readelf", "--debug-dump=info", "--wide", "declarations.o"],
        cwd=scratch, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    entries, children = _tree(dump)
    found: dict[str, int | str] = {}
    for number, entry in entries.items():
        name = entry.get("DW_AT_name", "")
        if not name.startswith(prefix) or "DW_AT_declaration" in entry:
            continue
        if entry["tag"] == "DW_TAG_structure_type":
            found[f"struct {name}"] = _number(entry["DW_AT_byte_size"])
            _fields(entries, children, number, f"struct {name}", found)
        elif entry["tag"] == "DW_TAG_enumeration_type":
            found[f"enum {name}"] = _number(entry["DW_AT_byte_size"])
            for child in children[number]:
                found[entries[child]["DW_AT_name"]] = _number(entries[child]["DW_AT_const_value"]) & 0xFFFFFFFF
    return found


def macros(lines: Sequence[str], folders: Sequence[Path], scratch: Path, prefix: str = "MRC_") -> dict[str, int]:
    """The macros without arguments whose names begin with `prefix` and that are numbers."""
    source = scratch / "macros.c"
    source.write_text("\n".join(lines) + "\n")
    include = [f"-I{folder}" for folder in folders]
    listed = subprocess.run(
        ["cc", *include, "-E", "-dM", "macros.c"], cwd=scratch, capture_output=True, text=True, check=True
    ).stdout
    texts = dict(re.findall(rf"^#define ({prefix}\w+) (.+)$", listed, re.MULTILINE))
    numbers = [name for name, text in texts.items() if not re.search(r"[{\"]", text)]
    prints = [f'printf("{name} %lld\\n", (long long)(unsigned int)({name}));' for name in numbers]
    source.write_text("\n".join([*lines, "#include <stdio.h>", "int main(void) {", *prints, "}"]) + "\n")
    subprocess.run(["cc", *include, "-o", "macros", "macros.c"], cwd=scratch, check=True)
    values = subprocess.run([scratch / "macros"], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in (line.split() for line in values.splitlines())}


def _tree(dump: str) -> tuple[dict[str, dict[str, str]], dict[str, list[str]]]:
    """Entries by number, each with its tag and attributes, and the numbers of the entries below each."""
    entries: dict[str, dict[str, str]] = {}
    children: dict[str, list[str]] = {}
    above: list[str] = []
    number = ""
    for line in dump.splitlines():
        if begins := _ENTRY.match(line):
            depth, number = int(begins[1], 16), begins[2]
            entries[number], children[number] = {"tag": begins[3] or ""}, []
            del above[depth:]
            if above and begins[3]:
                children[above[-1]].append(number)
            above.append(number)
        elif (field := _FIELD.match(line)) and number:
            entries[number][field[1]] = _FORM.sub("", field[2]).strip()
    return entries, children


def _fields(
    entries: Mapping[str, Mapping[str, str]],
    children: Mapping[str, Sequence[str]],
    number: str,
    where: str,
    found: dict[str, int | str],
) -> None:
    for child in children[number]:
        entry = entries[child]
        if entry["tag"] != "DW_TAG_member":
            continue
        name = f"{where}.{entry['DW_AT_name']}"
        kind = _reference(entry)
        found[name] = _number(entry.get("DW_AT_data_member_location", "0"))
        found[f"sizeof {name}"] = _size(entries, children, kind)
        found[f"type of {name}"] = _type_name(entries, kind)
        if entries[kind]["tag"] in _COMPOSITE and "DW_AT_name" not in entries[kind]:
            _fields(entries, children, kind, name, found)


def _number(text: str) -> int:
    return int(text.split()[0], 0)


def _reference(entry: Mapping[str, str]) -> str:
    """Number of the entry of its type."""
    return entry["DW_AT_type"].partition(">")[0].removeprefix("<").removeprefix("0x")


def _size(entries: Mapping[str, Mapping[str, str]], children: Mapping[str, Sequence[str]], kind: str) -> int:
    entry = entries[kind]
    if "DW_AT_byte_size" in entry:
        return _number(entry["DW_AT_byte_size"])
    below = _size(entries, children, _reference(entry))
    if entry["tag"] != "DW_TAG_array_type":
        return below
    count = 1
    for child in children[kind]:
        count *= _number(entries[child]["DW_AT_upper_bound"]) + 1
    return below * count


def _type_name(entries: Mapping[str, Mapping[str, str]], kind: str) -> str:
    """The type without typedefs, as ``array of unsigned char``."""
    entry = entries[kind]
    what = entry["tag"].removeprefix("DW_TAG_").removesuffix("_type")
    if what == "base":
        return entry["DW_AT_name"]
    if what in ("structure", "union", "enumeration"):
        return f"{what} {entry.get('DW_AT_name', '')}"
    if "DW_AT_type" not in entry:
        return f"{what} of void"
    below = _type_name(entries, _reference(entry))
    return below if what == "typedef" else f"{what} of {below}"
