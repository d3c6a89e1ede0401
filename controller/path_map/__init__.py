"""Path mapping: which link or switch loses packets, inferred from probes that hosts send through the fabric.

`plane_model` lists what may be faulty, `inference` finds the fewest that explain what was lost, `mapper` keeps the
history of probes and localises faults, `denylist_policy` says which entropy values to deny, `render` prints the map.
None of these has a clock or a socket; `collector` does the talking. See docs/path-mapping.md.
"""
