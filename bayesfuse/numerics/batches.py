"""Sums over draws of which batches tell the Monte Carlo error."""

from bayesfuse.numerics.kernels import kernel


@kernel
def add_to_batches(values, total, batch, mean, squares, counts):
    """Add values (n,) to their total and to the current batch, all in place.

    ``mean`` and ``squares`` are those of the means of batches. ``counts`` are the numbers of draws
    and of batches, and the length of a batch.
    """
    counts[0] += 1
    length = counts[2]
    is_complete = counts[0] % length == 0
    if is_complete:
        counts[1] += 1
    for i in range(values.size):
        total[i] += values[i]
        batch[i] += values[i]
        if is_complete:  # Welford's update: plain squares would cancel
            batch_mean = batch[i] / length
            deviation = batch_mean - mean[i]
            mean[i] += deviation / counts[1]
            squares[i] += deviation * (batch_mean - mean[i])
            batch[i] = 0.0
