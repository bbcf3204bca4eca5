"""What users give: responses, sequences, graphs, and how they are read."""
