"""Table of commands and of parts of annexes: where each is, to be imported when it is asked for.

The core imports no annex (docs/architecture.md; import-linter checks it), so that annexes can be ignored, and `mrc`
starts without importing all of them. What the command line, the demo, the prompt and `mrc doctor` start of an annex
stands here, and is loaded with :func:`load`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import Any, Final

COMMANDS: Final[Mapping[str, str]] = {
    "demo": "mrc_lab.cli.demo:demo",
    "up": "mrc_lab.cli.up:up",
    "down": "mrc_lab.cli.up:down",
    "restart": "mrc_lab.cli.restart:restart",
    "shell": "mrc_lab.cli.shell:shell",
    "exec": "mrc_lab.cli.exec:exec_",
    "train": "mrc_lab.torch_jobs.command:train",
    "train-faults": "mrc_lab.torch_jobs.train_faults.command:train_faults",
    "fault": "mrc_lab.cli.fault:fault",
    "trace": "mrc_lab.cli.trace:trace",
    "top": "mrc_lab.top.command:top",
    "map": "mrc_lab.cli.map:path_map",
    "metrics": "mrc_lab.telemetry.command:metrics",
    "web": "mrc_lab.web.command:web",
    "run": "mrc_lab.cli.run:run",
    "report": "mrc_lab.web.report_command:report",
    "sweep": "mrc_lab.sweeps.command:sweep",
    "compare": "mrc_lab.web.compare_command:compare",
    "paper": "mrc_lab.paper.command:paper",
    "rank": "mrc_lab.rank.command:rank",
    "plan": "mrc_lab.planning.command:plan",
    "conform": "mrc_lab.conformance.command:conform",
    "export": "mrc_lab.exports.command:export",
    "clean": "mrc_lab.cli.clean:clean",
    "doctor": "mrc_lab.cli.doctor:doctor",
    "completion": "mrc_lab.cli.completion:completion",
}
"""Commands of ``mrc`` by name."""

TORCH_DEMO: Final = "mrc_lab.torch_jobs.demo:run_demo"
FLAG_COMPLETION: Final = "mrc_lab.perf.flag_completion:words"
LIBIBVERBS_STATE: Final = "mrc_host.libibverbs.build:state"


def load(entry: str) -> Any:
    """What an entry of this table names, as ``module:attribute``; imports the module."""
    return pkgutil.resolve_name(entry)
