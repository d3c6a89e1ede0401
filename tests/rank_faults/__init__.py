"""Random faults of ranks: groups of the PyTorch backend form, add and recover while processes, NICs and links fail.

``scenario`` draws what happens from a seed; ``run`` makes it happen to processes (``rank``) on NICs in memory whose
wires fail (``wires``), and ``verdict`` says what of it may not be. ``python -m tests.rank_faults`` runs many.
"""
