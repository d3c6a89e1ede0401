"""The state of a switch with one program: tables, action profiles, externs, replication."""
