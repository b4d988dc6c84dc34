"""Datasets of counterfactuals that others can load: their layout, splits, descriptions, provenance and checksums."""
