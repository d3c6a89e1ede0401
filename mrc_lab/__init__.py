"""Users of a fabric rather than parts of one: workloads, experiments and their reports, and the ``mrc`` command.

The core is ``workloads``, which run on hosts over verbs alone, ``fabric``, which brings emulated fabrics up and keeps
them, ``experiments``, which reads and runs experiment files, ``reports``, which shows the results, and what people
start: ``demo``, ``prompt`` and ``cli``. ``commands``, ``command_table``, ``terminal``, ``errors`` and ``published``
serve these. All other folders are annexes, which the core does not import: docs/architecture.md lists them.
"""
