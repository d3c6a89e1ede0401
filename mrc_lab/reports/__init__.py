"""From recordings to what people read: figures, verdicts, the result folder, plots and one HTML report."""
