"""Adapters of classifiers: the contract, the registry, and one file per adapter. Nothing here imports ``pipeline``."""
