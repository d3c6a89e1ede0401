"""Performance of collectives, with the flags and columns of nccl-tests.

``cases`` says what each operation moves and must give, ``measure`` times and verifies it as coroutines over verbs (on a
real or a virtual clock), ``launch`` runs one process a rank on an emulated fabric, ``options`` and ``table`` are the
command line and the printed table.
"""
