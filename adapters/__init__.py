"""Classifiers: the contract, the registry, and one file each. Nothing here knows the pipeline that uses them."""
