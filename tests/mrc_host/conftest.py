"""How long property tests look: ``pytest --hypothesis-profile=ci`` or ``soak``; the default is quick."""

from hypothesis import settings

settings.register_profile("ci", max_examples=1_000, print_blob=True)
settings.register_profile("soak", max_examples=20_000, print_blob=True)
