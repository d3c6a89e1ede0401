"""Runs over a Ray cluster: Ray schedules them, repeats those whose worker or node dies, and stores what they return.

Every node needs this project installed, in the same version. Ray is an optional extra: ``pip install .[ray]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from experiments.errors import ExperimentError
from experiments.sweeps.execute import Outcome, execute
from experiments.sweeps.grid import Run


def over_ray(address: str, execute: Callable[[Run], Outcome] = execute) -> Callable[[Sequence[Run]], Iterator[Outcome]]:
    """What spreads runs over the cluster at `address` (``local`` starts one on this machine), outcomes as they come.

    Raises ExperimentError when Ray is not installed; the function returned, when no cluster answers.
    """
    ray = _ray()

    def spread(runs: Sequence[Run]) -> Iterator[Outcome]:
        _connect(ray, address)
        try:
            remote = ray.remote(num_cpus=1)(execute)
            waiting = {remote.remote(run): run for run in runs}
            while waiting:
                (ready,), _ = ray.wait(list(waiting), num_returns=1)
                run = waiting.pop(ready)
                try:
                    yield ray.get(ready)
                except ray.exceptions.RayError as error:
                    yield Outcome(run, None, str(error).strip().partition("\n")[0])
        finally:
            ray.shutdown()

    return spread


def _connect(ray: Any, address: str) -> None:
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        said = str(error).strip().partition("\n")[0]
        raise ExperimentError(
            f"no Ray cluster answers at {address}: {said}", "Is 'ray start --head' running there?"
        ) from None


def _ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise ExperimentError("Ray is not installed", "Install the extra: pip install 'mrc-testbed[ray]'.") from None
    return ray
