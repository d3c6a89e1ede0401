"""Fuzzers that run for a given time: ``python -m tests.fuzz NAME --seconds 60 --seed 7``."""
