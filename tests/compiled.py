"""A pytest plugin: ``python -m pytest -p tests.compiled tests/mrc_host`` tests the compiled transport.

``tests/mrc_host/test_compiled.py`` runs it on some of these tests.
"""

from mrc_host import compiled

if not compiled.use():
    raise RuntimeError("These sources are not compiled: run `python -m scripts.compile_transport`.")
