"""``mrc train-faults``: one small training job under the same faults over gloo, RoCE and MRC (docs/training-faults.md).

``cases.yaml`` says what fails, ``cases`` reads it. For each case and stack ``run_case`` brings a fabric up and starts
``worker`` in every host: a rank that trains, and recovers with ``survivors`` and ``stacks``. What the ranks report are
lines of ``events``, from which ``measures`` makes times and ``table`` the page. ``reference`` trains the same without a
network, and ``results`` keeps what was run.
"""
