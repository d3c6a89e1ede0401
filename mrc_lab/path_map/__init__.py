"""Path mapping in the simulated world, and how long it takes to name a fault."""
