"""One answer for a table of responses: which models are fitted, how they are averaged and told."""
