"""Counterfactual datasets for others: layout, splits, card, Croissant, provenance."""
