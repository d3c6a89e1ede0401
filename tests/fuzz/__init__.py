"""Fuzzers that run for as long as they are told to: ``python -m tests.fuzz NAME --seconds 60 --seed 7``."""
