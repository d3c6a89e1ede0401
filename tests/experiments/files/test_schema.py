import json

import yaml

from experiments.files import schema
from experiments.files.faults import KINDS as FAULTS
from experiments.files.workloads import KINDS as WORKLOADS
from tests.experiments.files.test_loader import PAPER


def test_the_published_schema_is_that_of_the_model():
    assert schema.PATH.read_text() == schema.text(), "run: python -m experiments.files.schema"


def test_every_kind_is_in_it():
    properties = json.loads(schema.text())["properties"]
    named = [part["properties"]["kind"]["const"] for part in properties["workload"]["oneOf"]]
    assert named == list(WORKLOADS)
    named = [part["properties"]["kind"]["const"] for part in properties["faults"]["items"]["oneOf"]]
    assert named == list(FAULTS)
    assert "trimming" in properties["fabric"]["properties"]["queues"]["properties"]


def test_every_key_has_a_description():
    properties = json.loads(schema.text())["properties"]
    for section in (properties, properties["fabric"]["properties"], properties["transport"]["properties"]):
        for name, part in section.items():
            assert part.get("description"), name


def fits(schema, value):
    """Enough of JSON Schema for what ours uses."""
    if "oneOf" in schema or "anyOf" in schema:
        hits = sum(fits(part, value) for part in schema.get("oneOf", schema.get("anyOf")))
        return hits == 1 if "oneOf" in schema else hits > 0
    if "const" in schema:
        return value == schema["const"]
    types = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    wanted = schema.get("type")
    if wanted and not any(isinstance(value, types[one]) for one in ([wanted] if isinstance(wanted, str) else wanted)):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, dict):
        known = schema.get("properties", {})
        return (
            all(name in value for name in schema.get("required", []))
            and (schema.get("additionalProperties", True) or all(name in known for name in value))
            and all(fits(known[name], part) for name, part in value.items() if name in known)
        )
    if isinstance(value, list):
        return len(value) >= schema.get("minItems", 0) and all(fits(schema.get("items", {}), part) for part in value)
    return True


def test_paper_files_fit_it_and_a_wrong_one_does_not():
    known = json.loads(schema.text())
    for path in PAPER:
        assert fits(known, yaml.safe_load(path.read_text())), path
    document = yaml.safe_load(PAPER[0].read_text())
    assert not fits(known, {**document, "durration": "1ms"})
    assert not fits(known, {**document, "faults": [{"kind": "link_down", "at": "1us"}]})
    assert not fits(known, {**document, "workload": {"kind": "nothing"}})
