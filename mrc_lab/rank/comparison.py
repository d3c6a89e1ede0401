"""What is compared: an experiment for each transport, workload and condition.

``ranking.yaml`` has the parts as fragments of experiment files. A composed experiment is an ordinary one, which
``mrc run`` runs, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mrc_common.declared.field_types import suggest
from mrc_common.written_files import write_text
from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files.model import Case
from mrc_lab.sweeps.grid import SweepFile

_FILE = Path(__file__).with_name("ranking.yaml")
Part = Mapping[str, Any]
_REPORT: Sequence[tuple[str, str, Part]] = (  # title, metric ("": the workload's completion time), selection
    ("throughput", "throughput", {}),
    ("p99", "", {"statistic": "p99"}),
    ("p100", "", {"statistic": "max"}),
    ("stall", "outage", {}),
    ("retransmitted", "retransmitted", {}),
    ("failed", "errors", {}),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Transports, workloads and conditions, each a mapping with a name; all workloads meet all conditions."""

    networks: Mapping[str, Part]
    transports: Sequence[Part]
    workloads: Sequence[Part]
    conditions: Sequence[Part]
    experiment: Part

    @property
    def names(self) -> list[str]:
        """Of all transports, workloads and conditions, in this order."""
        return [str(part["name"]) for part in (*self.transports, *self.workloads, *self.conditions)]

    def only(self, names: Collection[str]) -> Comparison:
        """What is left when of each kind only those with these names are taken, all where none of the kind is named.

        ExperimentError for a name that is none.
        """
        for name in names:
            if name not in self.names:
                raise ExperimentError(f"nothing that is ranked is called {name}; {suggest(name, self.names)}")
        transports, workloads, conditions = (
            [part for part in parts if part["name"] in names] or list(parts)
            for parts in (self.transports, self.workloads, self.conditions)
        )
        return Comparison(self.networks, transports, workloads, conditions, self.experiment)

    def experiments(self, transport: Part) -> dict[tuple[str, str], dict[str, Any]]:
        """Every experiment of a transport, by workload and condition, as an experiment file has it."""
        network = transport["network"]
        return {
            (workload["name"], condition["name"]): {
                "title": f"{transport['name']}: {workload['name']}, {condition['name']}",
                "fabric": {**self.networks[network], **transport.get("fabric", {}), **condition.get("fabric", {})},
                "transport": _transport(transport, workload),
                "workload": workload["workload"],
                "faults": condition.get("faults", {}).get(network, []),
                **self.experiment,
                "report": [
                    {"title": title, "metric": metric or workload["completion"], "of": of}
                    for title, metric, of in _REPORT
                ],
            }
            for workload in self.workloads
            for condition in self.conditions
        }


def _transport(transport: Part, workload: Part) -> dict[str, Any]:
    part = dict(transport["transport"])
    if "qps" in part and "qps" in workload:
        part["qps"] = min(part["qps"], workload["qps"])
    return part


def load() -> Comparison:
    """The comparison of ``mrc rank``."""
    read = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return Comparison(read["networks"], read["transports"], read["workloads"], read["conditions"], read["experiment"])


def name_of(workload: str, condition: str) -> str:
    """The name of the experiment of a workload under a condition."""
    return f"{workload}.{condition}"


def experiment_files(comparison: Comparison, transport: Part, folder: Path) -> list[SweepFile]:
    """Every experiment of a transport as a file in `folder`, which is not written."""
    return [
        SweepFile(folder / f"{name_of(workload, condition)}.yaml", _text(content))
        for (workload, condition), content in comparison.experiments(transport).items()
    ]


def write_experiments(files: Sequence[SweepFile]) -> None:
    """Write files, over any that are there."""
    for file in files:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(file.path, file.text)


def _text(content: Part) -> str:
    return yaml.safe_dump(content, sort_keys=False, width=120)


def case_of(content: Part) -> Case:
    """The only case of an experiment."""
    (case,) = load_text(_text(content)).cases
    return case
