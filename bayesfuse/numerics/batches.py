"""Sums over draws, with batches for Monte Carlo errors, and weighted draws resampled."""

import numpy as np

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


@kernel
def resample_stretches(labels, target, begin, sweeps):
    """Weight and resample the draws (items, samples) of every stretch: see ``reweighted``."""
    n_samples, n_classes = labels.shape[1], target.shape[1]
    resampled = labels.copy()
    weight, share = np.empty(n_samples), np.empty(n_classes)
    for stretch in range(len(begin) - 1):
        weight[:] = 1.0 / n_samples
        for _ in range(sweeps):
            for i in range(begin[stretch], begin[stretch + 1]):
                share[:] = 0.0
                for s in range(n_samples):
                    share[labels[i, s]] += weight[s]
                total = 0.0
                for k in range(n_classes):
                    total += target[i, k] if share[k] > 0.0 else 0.0
                if total > 0.0:  # labels that no draw has are left out
                    for s in range(n_samples):
                        k = labels[i, s]
                        if share[k] > 0.0:
                            weight[s] *= target[i, k] / (share[k] * total)
        source, cumulative = 0, weight[0]
        for s in range(n_samples):
            while cumulative < (s + 0.5) / n_samples and source < n_samples - 1:
                source += 1
                cumulative += weight[source]
            for i in range(begin[stretch], begin[stretch + 1]):
                resampled[i, s] = labels[i, source]
    return resampled
