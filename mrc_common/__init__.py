"""What every room may use and none owns: how processes are started, what they give up, and who may use their sockets."""
