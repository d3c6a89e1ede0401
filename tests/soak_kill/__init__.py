"""Hard use: a fabric whose processes are killed at random times while all its hosts write to each other.

`kill_plan` says who is killed when, from a seed; `flow` is the traffic, which verifies every byte; `fabric_process` is
the process that owns the fabric and restarts what was killed; `run` carries out the plan and judges; `leftovers` looks
at what is left when all is over.
"""
