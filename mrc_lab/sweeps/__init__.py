"""Many runs of experiment files, over processes or a Ray cluster, and one table of what came of them (``mrc sweep``).

``grid`` makes the runs, ``run_one`` does one, ``process_pool`` and ``ray_cluster`` distribute them, ``sweep_folder``
keeps what is done, ``table`` writes it as one table (JSON Lines), ``run_sweep`` puts these together.
"""
