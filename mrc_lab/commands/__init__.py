"""Commands that both the prompt and `mrc` have: their arguments, what they do, and their output."""
