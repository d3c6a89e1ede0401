"""Random scenarios that the scale backend and the packet simulation both run: ``python -m tests.scale_comparison``."""
