"""Experiments as files of other simulators: ``mrc export``."""
