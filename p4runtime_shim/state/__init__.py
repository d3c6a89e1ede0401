"""The control plane of one switch with one program: tables, profiles, cells, replication."""
