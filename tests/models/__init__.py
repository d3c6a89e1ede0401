"""Readable models of what the product has in C alone: naive, and compared with it on random input."""
