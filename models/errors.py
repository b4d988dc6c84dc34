"""What can be wrong with weights; apart from the networks, so that it can be caught without loading torch."""


class WeightsError(Exception):
    """Weights are missing, damaged or of another network; the message says which and what to do."""


class DeviceError(Exception):
    """There is no such device here for the networks; the message says what to do."""
