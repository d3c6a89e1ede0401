"""Diagrams of the pages, drawn from what the tests check: ``python -m scripts.diagrams`` writes docs/diagrams.

Fabrics and addresses are drawn from the Fabric value, states from the transport's own tables, the life of a lost packet
from the trace of a simulated run, and the rooms from the layers that import-linter enforces. A test sees that they are
current.
"""
