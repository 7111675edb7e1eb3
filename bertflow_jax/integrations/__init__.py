"""Optional adapters; each imports its package only when it is used."""
