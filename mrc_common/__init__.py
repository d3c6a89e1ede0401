"""What every room may use and none owns: so far ``children``, the one way to start a process."""
