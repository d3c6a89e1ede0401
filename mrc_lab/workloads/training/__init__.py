"""Synchronous data-parallel training of a small network: the job that the demo runs over the fabric."""
