"""Terminal output: colours of states, tables that fit, progress, notices above the line being typed."""
