"""Adapters of classifiers on this machine: networks, OpenCV, the embedded judge, and one with known slopes."""
