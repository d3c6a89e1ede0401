"""p4c's own programs, from a checkout that P4C_PATH names: what compiles, what its STF tests see, what is refused."""
