"""The baselines beside MRC: the same workloads and faults for each, in one table (docs/ranking.md)."""
