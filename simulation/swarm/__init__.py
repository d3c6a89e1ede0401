"""Swarm test: random fabrics, workloads and fault schedules, each from one seed, each checked from the outside.

`scenario` turns a seed into a plan, `run` plays it in a simulated world and lists what went wrong, `oracle` knows from
the fault schedule alone which failures are excusable, `shrink` looks for the smallest part of a plan that still fails.
``python -m simulation.swarm --seed N`` replays a seed.
"""
