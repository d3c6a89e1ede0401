"""Workloads of hosts, over verbs alone: verified writes, collectives, the training job."""
