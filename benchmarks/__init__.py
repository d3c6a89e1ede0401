"""Speed, measured apart from the tests: one module a subject, each with a ``measure()`` that yields measurements."""
