"""Small cases for tests, run in the simulated world."""

from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.running.run_case import run_case
from mrc_lab.experiments.running.simulated_backend import simulated_backend


def case_of(workload, duration="100us", **parts):
    lines = {
        "fabric": "{planes: 2, t0: 2, t1: 2, hosts: 4, rate: 100G}",
        "workload": workload,
        "duration": duration,
        "measure": "{bin: 10us, warmup: 20us}",
        **parts,
    }
    return load_text("\n".join(f"{name}: {text}" for name, text in lines.items())).cases[0]


def run(case, seed=1):
    with simulated_backend(case, seed) as backend:
        return run_case(case, backend, seed)
