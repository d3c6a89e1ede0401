"""htsim's files: connection matrices (who sends how much to whom, and when) and topologies of fat trees."""
