"""Published analyses of diagnostic tests without a gold standard, with their informative priors.

References: Joseph, Gyorkos & Coupal (1995), Am. J. Epidemiol. 141, 263–272 (Strongyloides, one
population); Enøe, Georgiadis & Johnson (2000), Prev. Vet. Med. 45, 61–81 (trout, two populations).
Means and 95 % intervals are those of a data-augmentation sampler for these eight or four counts,
written in NumPy without this package (60,000 draws).
"""

import numpy as np
import pandas as pd

import bayesfuse as bf
from bayesfuse.models import DawidSkene

QUIET = {"draws": 2000, "random_seed": 1, "progressbar": False, "quiet": True}


def check(result, expected):
    """Compare means and 95 % intervals, by variable and name."""
    for (variable, *names), numbers in expected.items():
        values = result["posterior"][variable]
        at = dict(zip(values.dims[2:], names, strict=True))
        draws = values.sel(at).values.ravel()
        found = [draws.mean(), *np.quantile(draws, [0.025, 0.975])]
        np.testing.assert_allclose(found, numbers, atol=0.01, err_msg=f"{variable} {names}")


def test_strongyloides_in_one_population():
    counts = {"++": 38, "+-": 87, "-+": 2, "--": 35}
    priors = {
        "serology": [[4.1, 1.76], [5.49, 21.96]],
        "stool": [[71.25, 3.75], [13.31, 4.44]],
    }
    table = bf.Responses.from_counts(counts, raters=list(priors))
    assert table.classes.tolist() == ["-", "+"]
    result = bf.sample(DawidSkene(table, confusion_prior=priors), **QUIET)
    check(
        result,
        {
            ("prevalence", "+"): (0.758, 0.514, 0.921),
            ("sensitivity", "serology"): (0.884, 0.792, 0.953),
            ("sensitivity", "stool"): (0.310, 0.224, 0.430),
            ("specificity", "serology"): (0.688, 0.371, 0.956),
            ("specificity", "stool"): (0.957, 0.907, 0.989),
        },
    )
    # as published; the specificity of serology, .67, has a Monte Carlo error of its own
    published = {"prevalence": 0.76, "sensitivity": [0.89, 0.31], "specificity": [0.67, 0.96]}
    for name, numbers in published.items():
        draws = result["posterior"][name]
        draws = draws.sel({"class": "+"}) if name == "prevalence" else draws
        found = draws.mean(("chain", "draw")).values
        np.testing.assert_allclose(found, numbers, atol=0.025)


def test_trout_in_two_populations():
    rows = [("one", "-", "-", 129), ("one", "-", "+", 3)]
    rows += [("two", "-", "-", 3), ("two", "-", "+", 24), ("two", "+", "+", 3)]
    trout = pd.DataFrame(rows, columns=["population", "microscopy", "pcr", "number"])
    trout = trout.loc[trout.index.repeat(trout["number"])].reset_index(drop=True)
    priors = {
        "microscopy": [[15.7, 1.30], [2.49, 2.82]],
        "pcr": [[10.69, 2.71], [1.81, 8.29]],
    }
    model = DawidSkene(
        bf.Responses.from_matrix(trout[list(priors)]),
        populations=trout["population"],
        prevalence_prior={"one": [9.65, 1.27], "two": [2.71, 1.73]},
        confusion_prior=priors,
    )
    check(
        bf.sample(model, **QUIET),
        {
            ("population_prevalence", "one", "+"): (0.015, 0.001, 0.047),
            ("population_prevalence", "two", "+"): (0.853, 0.707, 0.961),
            ("sensitivity", "microscopy"): (0.172, 0.066, 0.315),
            ("sensitivity", "pcr"): (0.929, 0.815, 0.992),
            ("specificity", "microscopy"): (0.991, 0.972, 1.000),
            ("specificity", "pcr"): (0.965, 0.928, 0.991),
        },
    )
