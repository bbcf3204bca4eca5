"""The report that the command line prints."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shell import SHORT, fit, tables

import bayesfuse as bf
from bayesfuse.command_line.report import _advice


def test_report_has_intervals_of_the_raters_and_the_least_certain_items(folder, capsys):
    import arviz as az

    fit()
    lines = capsys.readouterr().out.splitlines()
    header = next(at for at, line in enumerate(lines) if line.startswith("rater "))
    assert lines[header].split("  ")[-2:] == ["sensitivity (good)", "specificity (bad)"]
    draws = tables()["posterior"]
    for name in ("Ada", "Bo", "Cy"):
        (line,) = (line for line in lines[header + 1 :] if line.startswith(f"{name} "))
        expected = []
        for variable in ("sensitivity", "specificity"):
            own = draws[variable].sel(rater=name)
            low, high = az.eti(own).values
            expected.append(f"{float(own.mean()):.2f} ({low:.2f}–{high:.2f})")
        assert line.split(maxsplit=2)[1:] == ["20", "  ".join(f"{x:<18}" for x in expected).strip()]
    best = (draws["sensitivity"] + draws["specificity"]).mean(("chain", "draw")).to_series()
    shown = [line.split()[0] for line in lines[header + 1 : header + 4]]
    assert shown == best.sort_values(ascending=False).index.tolist()

    header = next(at for at, line in enumerate(lines) if line.startswith("least certain"))
    probability = bf.label_probabilities(tables())
    item = probability.isel(item=int(probability.max("class").argmin("item")))
    assert lines[header + 1].split()[0] == str(item["item"].item())
    for name in ("bad", "good"):
        assert f"{name}: {float(item.sel({'class': name})):.2f}" in lines[header + 1]
    uncertain = int((probability.max("class") < 0.95).sum())
    assert f"{uncertain} of 20 items have no label of probability 0.95 or more." in lines


def test_several_classes(folder, capsys):
    n_classes = 7
    label = np.tile(np.arange(n_classes), 6)
    frame = pd.DataFrame({"item": np.repeat(np.arange(2 * n_classes), 3), "label": np.sort(label)})
    frame["rater"] = np.tile([1, 2, 3], 2 * n_classes)
    frame.to_csv("several.csv", index=False)
    assert fit(table="several.csv", columns=[]) == 0
    printed = capsys.readouterr().out
    assert "sensitivity (mean of the classes)" in printed
    assert tables()["posterior"]["class"].values.tolist() == list(range(n_classes))


@pytest.mark.slow
def test_report_has_the_checks_unless_told_not_to(folder, capsys):
    for arguments, shown in (([], True), (["--no-checks"], False)):
        assert fit(*arguments, settings=SHORT) == 0
        printed = capsys.readouterr().out
        assert ("Posterior predictive checks:" in printed) == shown
        assert ("* The agreement of raters has standard" in printed) == shown


def test_quiet_prints_nothing(folder, capfd):
    assert fit("--quiet") == 0
    assert capfd.readouterr() == ("", "")
    assert Path("result.nc").exists()


def test_convergence_is_told_of_as_many_parameters_and_draws_as_there_are(
    folder, capsys, monkeypatch
):
    assert fit("--draws", "1", "--chains", "1") == 0
    assert "Convergence cannot be assessed" in capsys.readouterr().out
    assert fit() == 0
    said = capsys.readouterr().out
    assert "more sweeps per draw (--sweeps)" in said and "was checked" not in said
    monkeypatch.setattr("bayesfuse.command_line.report.CHECKED", 7)  # of 2 + 3 × 4
    assert fit() == 0
    assert "One in 2 raters was checked." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rhat", "ess", "sampler", "words"),
    [
        (1.005, 900, "gibbs", [""]),
        (1.5, 900, "gibbs", ["The chains disagree", "more sweeps per draw", "another model"]),
        (1.005, 300, "nuts", ["should run longer", "more draws (--draws)."]),
    ],
)
def test_advice_is_what_helps(rhat, ess, sampler, words):
    advice = _advice(rhat, ess, sampler)
    assert all(word in " ".join(advice.split()) for word in words)
    assert bool(advice) == bool(words[0])
    assert ("--sweeps" in advice) == (sampler == "gibbs" and bool(advice))  # NUTS has none
