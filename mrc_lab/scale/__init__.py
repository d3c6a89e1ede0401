"""The scale backend: states of links and paths, and rates between their changes, instead of packets (docs/scale.md).

`network` has a fabric as arrays, `stream_paths` which of its links paths cross, `link_states` what faults do to these,
`path_states` what queue pairs know of their paths, `max_min` and `rates` what flows get between two changes, `world`
the order of events. None of it knows experiment files.
"""
