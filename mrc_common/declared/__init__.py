"""Declared values: what files say, read by types, with errors that name the file, the line and the key.

A file is read in two steps. :mod:`.document` makes a :class:`~.document.Value` of its text, which knows where it
stands. The types of :mod:`.field_types` and :mod:`.sections` turn it into frozen values or refuse it, and describe what
they accept in JSON Schema, of which :mod:`.schema_definitions` names the repeated parts. What a file may say is then a
dataclass whose fields are made by :func:`~.sections.key`: its reading, its schema and its documentation are one
declaration. Documents can be laid over one another (:mod:`.overlay`), and a command line can set single keys
(:mod:`.assignment`).
"""
