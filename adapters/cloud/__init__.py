"""Remote services: what each is sent, and what its answers mean."""
