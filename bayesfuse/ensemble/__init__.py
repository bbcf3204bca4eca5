"""One answer for a table of responses, averaged over several models."""
