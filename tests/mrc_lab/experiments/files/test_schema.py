import contextlib
import functools
import json
import operator
import re

import pytest
import yaml

from mrc_common.declared.schema_definitions import with_definitions
from mrc_common.declared.sections import Section
from mrc_lab.experiments.files import FileError, load_text, schema
from mrc_lab.experiments.files.model import FilePart
from mrc_lab.experiments.files.workloads import KINDS as WORKLOADS
from tests.mrc_lab.experiments.files.test_loader import PAPER
from topologies.faults import KINDS as FAULTS


@functools.cache
def published():
    """The schema as it is read from its file."""
    return json.loads(schema.PATH.read_text())


def test_the_published_schema_matches_the_model():
    assert schema.PATH.read_text() == schema.text(), "run: python -m mrc_lab.experiments.files.schema"


def test_every_kind_is_in_the_schema():
    whole = published()
    properties = whole["properties"]
    named = [resolved(part, whole)["properties"]["kind"]["const"] for part in properties["workload"]["oneOf"]]
    assert named == list(WORKLOADS)
    kinds = [resolved(part, whole)["properties"]["kind"] for part in properties["faults"]["items"]["oneOf"]]
    named = [kind.get("const") or kind["oneOf"][0]["const"] for kind in kinds]
    assert list(dict.fromkeys(named)) == list(FAULTS)
    assert "trimming" in resolved(properties["fabric"]["properties"]["queues"], whole)["properties"]


def test_no_part_is_repeated_and_no_definition_is_left_over():
    text = schema.text()
    whole = json.loads(text)
    assert {f"#/$defs/{name}" for name in whole["$defs"]} == set(re.findall(r'"(#/\$defs/[^"]+)"', text))
    expanded = Section(FilePart).schema()

    def unfolded(part):
        if isinstance(part, list):
            return [unfolded(inner) for inner in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part and part["$ref"].startswith("#/$defs/"):
            part = {**resolved(part, whole), **{name: value for name, value in part.items() if name != "$ref"}}
        return {name: unfolded(inner) for name, inner in part.items()}

    given = {name: value for name, value in whole.items() if name not in ("$defs", "$schema", "title")}
    assert unfolded(given) == expanded
    assert with_definitions(expanded)["$defs"] == whole["$defs"]


def test_every_key_has_a_description():
    properties = published()["properties"]
    for section in (properties, properties["fabric"]["properties"], properties["transport"]["properties"]):
        for name, part in section.items():
            assert part.get("description"), name


def resolved(part, root):
    """A part of the schema `root`, or the one that it refers to."""
    while "$ref" in part:
        _hash, *names = part["$ref"].split("/")
        part = functools.reduce(operator.getitem, names, root)
    return part


def fits(schema, value, root=None):
    """Enough of JSON Schema for what ours uses."""
    root = root or schema
    schema = resolved(schema, root)
    if "oneOf" in schema or "anyOf" in schema:
        hits = sum(fits(part, value, root) for part in schema.get("oneOf", schema.get("anyOf")))
        return hits == 1 if "oneOf" in schema else hits > 0
    if "const" in schema:
        return value == schema["const"]
    types = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    wanted = schema.get("type")
    if wanted and not any(isinstance(value, types[one]) for one in ([wanted] if isinstance(wanted, str) else wanted)):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return False
    if "minimum" in schema and not schema["minimum"] <= value <= schema.get("maximum", value):
        return False
    if isinstance(value, dict):
        known = schema.get("properties", {})
        return (
            all(name in value for name in schema.get("required", []))
            and (schema.get("additionalProperties", True) or all(name in known for name in value))
            and all(fits(known[name], part, root) for name, part in value.items() if name in known)
        )
    if isinstance(value, list):
        return len(value) >= schema.get("minItems", 0) and all(
            fits(schema.get("items", {}), part, root) for part in value
        )
    return True


def test_paper_files_validate_and_invalid_ones_do_not():
    known = published()
    for path in PAPER:
        assert fits(known, yaml.safe_load(path.read_text())), path
    document = yaml.safe_load(PAPER[0].read_text())
    assert not fits(known, {**document, "durration": "1ms"})
    assert not fits(known, {**document, "faults": [{"kind": "link_down", "at": "1us"}]})
    assert not fits(known, {**document, "workload": {"kind": "nothing"}})


def test_tenants_flows_and_links_validate_and_invalid_ones_do_not():
    known = published()
    tenant = {
        "name": "a",
        "kind": "write_bw",
        "pairs": ["h1>h3", {"pair": "h2>h4", "qps": 2}],
        "transport": {"type": "rc"},
    }
    document = {
        "fabric": {"hosts": 4, "t0": 2, "t1": 2, "links": {"t0-t1": {"delay": "5us"}, "t0-0:t1-1@p0": "missing"}},
        "workloads": [tenant, {"name": "b", "kind": "permutation"}],
        "duration": "1ms",
        "variants": [{"name": "x", "workloads": [{"name": "a", "message": "4K"}]}],
    }
    assert load_text(yaml.safe_dump(document)).cases
    assert fits(known, document)
    for wrong in (
        {"name": "a", "kind": "write_bw"},
        {"kind": "permutation"},
        {**tenant, "pairs": [{"message": "4K"}]},
        {**tenant, "transport": {"spraying": "reactive"}},
        {**tenant, "outstanding": "many"},
    ):
        assert not fits(known, {**document, "workloads": [wrong]}), wrong
    assert not fits(known, laid(document, "variants", 0, "workloads", to=[{"name": "a", "massage": "4K"}]))


def laid(base, *path, to):
    """A copy of a document with `to` at `path`."""
    if not path:
        return to
    if isinstance(base, list):
        return [laid(part, *path[1:], to=to) if number == path[0] else part for number, part in enumerate(base)]
    return {**base, path[0]: laid(base.get(path[0], {}), *path[1:], to=to)}


SMALL = {
    "fabric": {"hosts": 4, "t0": 2, "t1": 2, "rate": "100G"},
    "workload": {"kind": "write_bw", "pairs": "h1>h3"},
    "duration": "200us",
    "faults": [{"kind": "rate", "link": "*", "at": "10us", "rate": "40G"}],
    "expect": [{"metric": "wrong_bytes", "relation": "at_most", "value": 0}],
    "variants": [{"name": "a"}],
}


@pytest.mark.parametrize(
    ("path", "value", "right"),
    [
        (("duration",), "200us", True),
        (("duration",), "0.2 ms", True),
        (("duration",), 200, False),
        (("duration",), "200", False),
        (("duration",), "200 sec", False),
        (("duration",), "1e999us", False),
        (("fabric", "rate"), 10**11, True),
        (("fabric", "rate"), "2.5Gb/s", True),
        (("fabric", "rate"), "40Gbit/s", True),
        (("fabric", "rate"), -1, False),
        (("fabric", "rate"), "fast", False),
        (("fabric", "hosts"), 0, False),
        (("fabric", "hosts"), "4", False),
        (("fabric", "pfc"), True, True),
        (("fabric", "pfc"), "perhaps", False),
        (("workload", "message"), "64KiB", True),
        (("workload", "message"), 65536, True),
        (("workload", "message"), "64X", False),
        (("workload", "pairs"), ["h1>h3", "h2>h4"], True),
        (("workload", "pairs"), [], False),
        (("workload", "shift"), 1, False),
        (("faults", 0, "at"), 10, False),
        (("faults", 0, "probability"), "1%", False),
        (("faults", 0), {"kind": "switch_dead", "at": "1us", "switch": "t1-0@p0"}, True),
        (("faults", 0), {"kind": "path_loss", "at": "1us", "ev": 1}, True),
        (("faults", 0), {"kind": "path_loss", "at": "1us", "plane": 0, "uplink": 1}, True),
        (("faults", 0), {"kind": "path_loss", "at": "1us", "plane": 0}, False),
        (("faults", 0), {"kind": "path_loss", "at": "1us", "ev": 1, "plane": 0, "uplink": 1}, False),
        (("expect", 0, "value"), "0", True),
        (("expect", 0, "tolerance"), "5 %", True),
        (("expect", 0, "tolerance"), "5 pounds", False),
        (("expect", 0, "tolerance"), -0.1, False),
        (("name",), 5, True),
        (("transport",), {"settings": {"base_rtt": "9us"}}, True),
        (("transport",), {"settings": {"base_rtt": 9}}, False),
        (("variants", 0, "workload"), {"message": "1M"}, True),
        (("variants", 0, "workload"), {"mesage": "1M"}, False),
        (("variants", 0, "fabric"), {"t0": 1}, True),
        (("variants", 0, "fabric"), {"t0": "one"}, False),
        (("variants", 0, "faults"), [], True),
        (("variants", 0, "faults"), [{"kind": "rate", "at": "0us"}], False),
    ],
)
def test_schema_and_loader_agree(path, value, right):
    document = laid(laid(SMALL, "expect", 0, "of", to={"variant": "a"}), *path, to=value)
    assert fits(published(), document) == right
    with contextlib.nullcontext() if right else pytest.raises(FileError):
        load_text(yaml.safe_dump(document))
