"""What people see in a terminal: colours of states, tables that fit, progress, notices above the line being typed."""
