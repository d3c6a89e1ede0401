"""Swarm test: random fabrics, workloads and fault schedules, each from one seed, each checked from the outside.

`generate_scenario` turns a seed into a scenario, `run` plays it in simulation and lists what went wrong, `oracle` knows
from the fault schedule alone which failures are excusable, `shrink` looks for the smallest part that still fails.
``python -m tests.swarm --seed N`` replays a seed.
"""
