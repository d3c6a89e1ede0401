"""Running an experiment: the flows or collectives of each case on a backend, and what is recorded meanwhile."""
