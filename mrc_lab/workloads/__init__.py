"""What hosts run, over verbs alone: verified writes, collectives, the training job."""
