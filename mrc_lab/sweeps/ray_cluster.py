"""Runs over a Ray cluster: Ray schedules them, repeats those whose worker or node fails, and stores what they return.

Nothing of this project goes over the wire but one function (see ``ray_worker``), which checks on every node
that the same version is installed there as here. Ray is an optional extra: ``pip install '.[ray]'``.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mrc_lab.errors import ExperimentError
from mrc_lab.sweeps import ray_worker
from mrc_lab.sweeps.grid import SweepRun
from mrc_lab.sweeps.ray_connection import connect, first_line, load_ray, reach
from mrc_lab.sweeps.run_one import SweepOutcome, execute
from mrc_lab.sweeps.version import digest

_MAX_AHEAD = 1000  # runs that Ray has at a time: enough for it to see that more nodes are wanted
_LOOK_S = 5.0


def over_ray(
    address: str, execute: Callable[[SweepRun], SweepOutcome] = execute, jobs: int | None = None
) -> Callable[[Sequence[SweepRun]], Iterator[SweepOutcome]]:
    """What spreads runs over the cluster at `address` (``local`` starts one on this machine), outcomes as they come.

    At most `jobs` runs are done at a time; None leaves that to Ray, which gives each run one processor. `execute` must
    be a module's function. Raises ExperimentError when Ray is not installed; the function returned, when no cluster
    answers or a node has not this version of the project.
    """
    ray = load_ray(address)

    def spread(runs: Sequence[SweepRun]) -> Iterator[SweepOutcome]:
        connect(ray, address)
        try:
            ray.cloudpickle.register_pickle_by_value(ray_worker)
            remote = ray.remote(num_cpus=1)(ray_worker.work)
            here = digest()
            ahead = jobs or max(_MAX_AHEAD, 2 * int(ray.cluster_resources().get("CPU", 0)))
            coming = iter(runs)
            waiting: dict[Any, SweepRun] = {}
            while True:
                while len(waiting) < ahead and (run := next(coming, None)) is not None:
                    waiting[remote.remote(pickle.dumps((execute, run)), here)] = run
                if not waiting:
                    return
                ready, _ = ray.wait(list(waiting), num_returns=1, timeout=_LOOK_S)
                if not ready:
                    reach(address)  # Ray ends this process when the head has been dead for a minute
                for one in ready:
                    yield _outcome(ray, one, waiting.pop(one))
        finally:
            ray.shutdown()

    return spread


def _outcome(ray: Any, ready: Any, run: SweepRun) -> SweepOutcome:
    try:
        found = ray.get(ready)
    except ray.exceptions.RayError as error:
        return SweepOutcome(run, None, first_line(error))
    if isinstance(found, str):
        raise ExperimentError(found, "Install there what is installed here (docs/experiments.md, Many runs).")
    outcome: SweepOutcome = pickle.loads(found)
    return outcome
