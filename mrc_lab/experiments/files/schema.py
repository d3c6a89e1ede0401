"""The JSON schema of experiment files, made from the model; ``python -m mrc_lab.experiments.files.schema`` writes it.

Editors that know JSON Schema (for instance through a first line ``# yaml-language-server: $schema=...``) complete and
check experiment files with it. What needs the fabric is checked only by the loader.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mrc_common.declared.schema_definitions import with_definitions
from mrc_common.declared.sections import Section
from mrc_lab.experiments.files.model import FilePart

PATH = Path(__file__).with_name("schema.json")


def schema() -> dict[str, Any]:
    """The whole schema."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MRC testbed experiment",
        **with_definitions(Section(FilePart).schema()),
    }


def text() -> str:
    """The file's content."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
