"""What a fabric of a given size would take: the arithmetic behind ``mrc plan`` (see docs/plan.md)."""
