"""Querying classifiers: the plan, the calls, the store of raw answers, and the labels derived from them."""
