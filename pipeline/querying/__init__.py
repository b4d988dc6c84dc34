"""Querying classifiers: the plan, the calls, every raw answer kept, and the labels derived from them."""
