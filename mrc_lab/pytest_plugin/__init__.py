"""The pytest plugin: fabrics as fixtures, for tests of your own congestion control, application or P4 program.

``fixtures`` is what pytest loads (entry point `pytest11`), ``marker`` reads what a test asks for, ``running_fabric``
has the two backends, and ``fabric_under_test`` is what a test gets. `docs/ci.md` describes their use.
"""
