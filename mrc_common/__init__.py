"""Helpers that every room may use and none owns: starting processes, giving up privileges, UNIX sockets."""
