"""Many runs of experiment files, over processes or a Ray cluster, and one table of what came of them (``mrc sweep``).

``grid`` makes the runs, ``execute`` does one, ``processes`` and ``cluster`` spread them, ``folder`` keeps what is done,
``table`` writes it as one table (JSON Lines), ``conduct`` puts these together.
"""
