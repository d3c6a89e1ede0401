"""Small programs that use the testbed, each complete in one file; tests/examples/ runs them."""
