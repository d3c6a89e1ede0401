"""The prompt of a fabric: Mininet's, with commands for NICs, paths, faults, switches and captures.

``prompt.py`` is the class with one short method a command; ``command_help`` is the table of all commands (groups,
usage, examples, what each word is), from which help and completion are made; the other modules do the work.
"""
