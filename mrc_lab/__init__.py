"""Users of a fabric rather than parts of one: workloads, experiments and their reports, and the ``mrc`` command.

``workloads`` runs on hosts over verbs alone, ``fabric`` brings emulated fabrics up and keeps them, ``experiments``
reads and runs experiment files, ``reports`` shows the results, ``sweeps`` and ``paper`` run many. ``demo``, ``perf``,
``planning``, ``prompt`` and ``cli`` are what people start. ``make lint`` checks the direction of imports.
"""
