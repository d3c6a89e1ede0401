"""From recordings to what people read: metrics, verdicts, the result folder, plots and one HTML report."""
