"""Hard use: a fabric whose processes are killed at random times while all its hosts write to each other.

`plan` says who is killed when, from a seed; `flow` is the traffic, which verifies every byte; `owner` is the process
that has the fabric up and starts what was killed anew; `run` plays the plan and judges; `leftovers` looks at what is
there when all is over.
"""
