"""The same flows in our simulation and in htsim, with the same constants: ``make cross-check HTSIM=PATH``.

docs/cross-check.md says what is compared with what, and why results differ.
"""
