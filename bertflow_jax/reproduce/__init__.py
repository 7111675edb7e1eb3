"""The tables of the BERT-flow paper, each by one command."""
