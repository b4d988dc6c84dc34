"""Classifiers on this machine: networks, OpenCV, the embedded judge and a planted truth, and what they share."""
