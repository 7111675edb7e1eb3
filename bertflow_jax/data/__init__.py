"""Text, STS readers and token batches."""
