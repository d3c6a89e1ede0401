"""Workloads, the demo and the ``mrc`` command: everything that uses a fabric rather than being part of one.

``collectives`` moves numpy arrays between hosts over verbs, ``training`` is the data-parallel job built on it,
``demo`` runs that job over MRC and over RoCE while links are cut, ``emulation`` starts the fabric they run on, and
``cli`` is the command a user types.
"""
