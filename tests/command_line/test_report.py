"""The report that the command line prints."""

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

    header = next(at for at, line in enumerate(lines) if line.startswith("least certain"))
    probability = bf.label_probabilities(tables())
    item = probability.isel(item=int(probability.max("class").argmin("item")))
    assert lines[header + 1].split()[0] == str(item["item"].item())


@pytest.mark.slow
def test_report_has_the_checks_unless_told_not_to(folder, capsys):
    for arguments, shown in (([], True), (["--no-checks"], False)):
        assert fit(*arguments, settings=SHORT) == 0
        printed = capsys.readouterr().out
        assert ("Posterior predictive checks:" in printed) == shown
        assert ("* The agreement of raters has standard" in printed) == shown


def test_convergence_is_told_of_as_many_draws_as_there_are(folder, capsys):
    assert fit("--draws", "1", "--chains", "1") == 0
    assert "Convergence cannot be assessed" in capsys.readouterr().out
    assert fit() == 0
    said = capsys.readouterr().out
    assert "more sweeps per draw (--sweeps)" in said


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
