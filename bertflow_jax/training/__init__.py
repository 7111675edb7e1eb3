"""Losses, optimiser, pure steps and the loop."""
