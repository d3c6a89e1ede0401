"""Hardware that a fabric of a given size needs: the arithmetic behind ``mrc plan`` (see docs/plan.md)."""
