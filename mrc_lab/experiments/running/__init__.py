"""Running an experiment: a case's flows or collectives on a stage (a world), and what is recorded while they run."""
