"""Bias amplification of labels and predictions: directional, MALS, sets of tasks, and with an intervention."""
