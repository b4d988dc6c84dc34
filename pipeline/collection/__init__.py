"""Collecting photos by keyword: search services, safe downloads, licences, and the manifest."""
