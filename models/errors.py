"""What can be wrong with weights; apart from the networks, so that it can be caught without loading torch."""


class WeightsError(Exception):
    """Weights are missing, damaged or of another network; the message says which and what to do."""
