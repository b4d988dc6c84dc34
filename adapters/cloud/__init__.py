"""Adapters of remote services."""
