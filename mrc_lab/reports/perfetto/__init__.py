"""Traces for ui.perfetto.dev: what `mrc trace convert` makes of event traces and of the results of runs."""
