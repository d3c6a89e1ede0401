"""The demo: one training job over RoCE and over MRC while links are cut, and what came of it."""
