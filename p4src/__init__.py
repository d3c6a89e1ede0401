"""The switch program; as a Python package only so that what p4c made of it is found wherever the project is installed.

``build/fabric.json`` (BMv2 JSON) and ``build/fabric.p4info.txtpb`` (P4Info) are package data; :data:`BUILD` is their
folder, in a checkout and in an installed wheel alike.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

BUILD = Path(str(files(__name__) / "build"))
PROGRAM = BUILD / "fabric.json"
P4INFO = BUILD / "fabric.p4info.txtpb"
