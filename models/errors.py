"""Errors of weights and devices, in a module that can be imported without torch."""


class WeightsError(Exception):
    """Weights are missing, damaged or belong to another network; the message says what to do."""


class DeviceError(Exception):
    """The requested device is not available; the message says what to do."""
