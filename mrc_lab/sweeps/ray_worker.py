"""The function that Ray's workers call. Ray carries it there by its code, not by its name.

So it also runs where this project is missing, and says so. All it needs it imports itself: the check comes before the
project, and the choice of the compiled transport before anything that imports the transport.
"""

from __future__ import annotations


def work(task: bytes, version: str) -> bytes | str:
    """Do a pickled pair of function and run, with the sources `version`; returns its pickled outcome, or what is wrong.

    Nothing is cached here, since Ray keeps a worker for many runs, and ``version.digest`` does so itself.
    """
    import pickle

    import ray.util

    address: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call, unused-ignore]
    where = f"the Ray node {address}"
    try:
        from mrc_host import compiled
        from mrc_lab.sweeps.version import digest
    except ImportError as error:
        return f"{where} cannot import this project: {error}"
    if (there := digest()) != version:
        return f"{where} has another version of this project: its sources are {there}, here they are {version}"
    compiled.use()
    execute, run = pickle.loads(task)
    outcome = execute(run)
    if outcome.record is not None:
        outcome.record["node"] = address
    return pickle.dumps(outcome)
