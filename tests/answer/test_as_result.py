"""An answer of several models works where a result does, also after it was saved and loaded."""

import arviz as az
import numpy as np
import pandas as pd
import pytest
from refusals import refused

import bayesfuse as bf

QUIET = {"random_seed": 5, "minutes": 10, "progressbar": False}


@pytest.fixture(scope="module")
def told(crowd, few_draws):
    """The answer with known labels, from a long table."""
    gold = {item: int(crowd.truth[item]) for item in range(20)}
    return bf.fuse(crowd.responses.to_frame(), gold=gold, **QUIET)


@pytest.mark.parametrize("known", [False, True])
def test_an_answer_is_a_result_also_after_loading(known, fused, told, crowd, tmp_path):
    answer = told if known else fused
    answer.to_netcdf(tmp_path / "answer.nc")
    loaded = bf.load(tmp_path / "answer.nc")
    assert isinstance(loaded, bf.Fused) and repr(loaded) == answer.overview()
    pd.testing.assert_frame_equal(loaded.raters(), answer.raters())
    pd.testing.assert_frame_equal(loaded.probabilities(), answer.probabilities())
    assert loaded.explain() == answer.explain()
    drawn = bf.draw_labels(loaded, draws=400)
    spans = bf.spans(loaded, bf.Sequences.from_lengths([40]), scheme="runs", outside=None)
    counted = bf.spans(drawn, bf.Sequences.from_lengths([40]), scheme="runs", outside=None)
    pd.testing.assert_frame_equal(spans, counted)
    assert bf.class_shares(loaded).shares["share"].sum() == pytest.approx(1)
    assert bf.difficulty(loaded).equals(answer["difficulty"].to_dataset())
    new = crowd.responses.take(np.arange(20, 40))
    expected = answer.probabilities().loc[20:].to_numpy()
    # draws are thinned, and new items weigh them anew
    found = bf.label_probabilities(bf.predict(loaded, new)).values
    np.testing.assert_allclose(found, expected, atol=0.12)
    for call in (bf.decode, az.loo, bf.checks.item_difficulty):
        refused(r'fused\["models/consensus"\]', call, loaded)
    assert "</table>" in loaded._repr_html_() and "image/png" in loaded._repr_html_()


def test_the_first_line_says_how_the_table_was_read(told):
    assert told.overview().startswith("Read as a long table, one row per response (columns item,")


def test_the_answer_says_what_a_table_cannot_tell(crowd, few_draws):
    alone = crowd.responses.to_frame().query("rater == 0")
    answer = bf.fuse(alone, **QUIET)
    assert "Limits of this table:\n* Only one rater responded" in answer.overview()


def test_a_plain_result_is_loaded(tmp_path, crowd):
    point = bf.find_map(bf.models.DawidSkene(crowd.responses))
    point.to_netcdf(tmp_path / "point.nc")
    assert bf.label_probabilities(bf.load(tmp_path / "point.nc")).equals(
        bf.label_probabilities(point)
    )
    for name in ("nowhere.nc", "text.nc"):
        (tmp_path / "text.nc").write_text("item,label")
        refused(rf"path must be of a NetCDF file.*{name}", bf.load, tmp_path / name)


def test_the_page_of_sequences_has_spans_and_all_raters(few_draws, tmp_path):
    """Spans need the answer alone, whose sequences are numbered."""
    rng = np.random.default_rng(1)
    tags = np.array(["O", "B", "I", "O", "O"] * 8)
    noisy = np.where(rng.random((40, 12)) < 0.1, "O", tags[:, None])
    sequences = bf.Sequences.from_lengths([20, 20])
    answer = bf.fuse(noisy, sequences=sequences, **QUIET)
    pd.testing.assert_frame_equal(bf.spans(answer), bf.spans(answer, sequences))
    refused(r"bf\.spans\(fused\).*models/sequences.*an average of seq", bf.decode, answer)
    strip = bf.plots.plot_sequence(answer)[0].patches
    assert strip[0].get_data().values.sum() == pytest.approx(
        answer.probabilities().iloc[:20, 0].sum()
    )
    refused(r"must have item types.*Got: sequences, vote shares", bf.difficulty, answer)
    runs = bf.run_lengths(answer)
    assert (runs["length"] * runs["runs"]).sum() == pytest.approx(40)
    page = answer.report(tmp_path / "page.html").read_text(encoding="utf-8")
    probable = (bf.spans(answer)["probability"] >= 0.5).sum()
    assert f"Spans of probability 0.5 or more: {probable}" in page and probable >= 6
    assert "All raters: 12</summary>" in page
    refused(r"ends in \.html.*page\.pdf", answer.report, tmp_path / "page.pdf")
