"""Path mapping in simulation, and how long it takes to name a fault."""
