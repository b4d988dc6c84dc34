"""Publishable counterfactual datasets: layout, splits, card, Croissant description, provenance."""
