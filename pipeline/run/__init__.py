"""A run's folder, its record and its tables; no stage's work is known here."""
