"""The published results of MRC as experiment files (one a figure), and the page that sets ours beside them."""
