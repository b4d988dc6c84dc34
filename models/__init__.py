"""Networks, their trained weights and the scripts' training loops. Knows nothing of the pipeline."""
