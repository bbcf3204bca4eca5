"""What follows from draws: label probabilities, summaries, whole labellings, averages."""
