"""The marker ``@pytest.mark.mrc(...)``: a fabric, a backend, plugins.

    @pytest.mark.mrc(planes=4, hosts=8, plugins=["my_window.py"], congestion="my_window")

The keys of a fabric file (docs/fabrics.md) give the fabric, or `file` names one; what is not given has the values of
:data:`DEFAULTS`. `backend` and `seed` override the command line. `plugins`, `congestion` and `path_selection` are those
of ``mrc up``, and `program` is a P4 program (or BMv2's JSON) that the switches run instead of the fabric's own. Paths
are relative to the test's file. Marks on class and module add to that of the test, whose values win.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mrc_host import plugins as loader
from mrc_lab.errors import ExperimentError
from mrc_lab.fabric.link_rate import carried_rate
from topologies.errors import FabricError
from topologies.fabric import Fabric
from topologies.loader import load_file, load_text
from topologies.p4_program import P4Program, read_program

BACKENDS = ("sim", "emulation")
DEFAULTS: Mapping[str, Any] = {"planes": 2, "t0": 2, "t1": 4, "hosts": 4}
SIMULATED_RATE = 100_000_000_000  # b/s
_NIC_KEYS = ("plugins", "congestion", "path_selection")
_OWN_KEYS = ("backend", "seed", "file", "program", *_NIC_KEYS)
_FROM_RACKS = ("t0", "hosts")


@dataclass(frozen=True, slots=True)
class FabricRequest:
    """The fabric that a test gets, and where."""

    fabric: Fabric
    backend: str
    seed: int
    program: P4Program | None = None


def read_marker(given: Mapping[str, Any], folder: Path, backend: str, seed: int, name: str = "pytest") -> FabricRequest:
    """The request in the marker's values `given`, with `backend` and `seed` unless it has its own.

    `name` is the fabric's, unless it is given. Raises ExperimentError, FabricError or MrcError for a wrong value.
    """
    backend, seed = given.get("backend", backend), given.get("seed", seed)
    if backend not in BACKENDS:
        raise ExperimentError(f"the backend is {' or '.join(BACKENDS)}, not {backend!r}")
    if type(seed) is not int or seed < 0:
        raise ExperimentError(f"the seed is a whole number, 0 or more, not {seed!r}")
    program = given.get("program")
    fabric = _with_nic_settings(_fabric(given, folder, backend, name), given, folder)
    return FabricRequest(fabric, backend, seed, None if program is None else read_program(folder / program))


def _fabric(given: Mapping[str, Any], folder: Path, backend: str, name: str) -> Fabric:
    shape = {key: value for key, value in given.items() if key not in _OWN_KEYS}
    if "file" in given:
        if shape:
            raise ExperimentError(f"the fabric is that of {given['file']}: leave {', '.join(shape)} out")
        return replace(load_file(folder / given["file"]), name=name)
    absent = _FROM_RACKS if "racks" in shape else ()
    text = {"name": name, **{key: value for key, value in DEFAULTS.items() if key not in absent}, **shape}
    try:
        fabric = load_text(json.dumps(text), source="@pytest.mark.mrc")  # JSON is YAML
    except TypeError as error:
        raise FabricError(f"@pytest.mark.mrc: {error}") from None
    if "rate" in shape:
        return fabric
    rate = SIMULATED_RATE if backend == "sim" else carried_rate(len(fabric.nics), fabric.planes)
    return load_text(json.dumps({**text, "rate": str(rate)}), source="@pytest.mark.mrc")


def _with_nic_settings(fabric: Fabric, given: Mapping[str, Any], folder: Path) -> Fabric:
    """The fabric with the plugins and the choices that its NICs have; checks that they exist."""
    from mrc_host.transport import algorithms

    values: dict[str, Any] = {key: given[key] for key in _NIC_KEYS if key in given}
    if "plugins" in values:
        if isinstance(values["plugins"], str | Path):
            raise ExperimentError(f"plugins is a list of files, as in [{str(values['plugins'])!r}]")
        values["plugins"] = tuple(loader.load(_file_of(plugin, folder)) for plugin in values["plugins"])
    if "congestion" in values:
        algorithms.find({**algorithms.ALGORITHMS, **loader.CONGESTION_CONTROLS}, values["congestion"], True)
    if "path_selection" in values:
        loader.make_path_selection(values["path_selection"])
    settings = fabric.settings
    return replace(fabric, settings=replace(settings, transport=replace(settings.transport, **values)))


def _file_of(plugin: str | Path, folder: Path) -> str:
    """A plugin's file beside the test, or the name of an installed one (`mrc_host.plugins.load`)."""
    return str(folder / plugin) if "/" in str(plugin) or str(plugin).endswith(".py") else str(plugin)
