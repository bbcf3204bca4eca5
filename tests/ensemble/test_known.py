"""Answers with known labels on top of their models, and all answers as results, saved or not."""

import arviz as az
import numpy as np
import pandas as pd
import pytest
from refusals import refused, refused_table
from slowly import with_slow

import bayesfuse as bf
from bayesfuse.ensemble.inputs import Inputs, hold_out_gold, mend_tags
from bayesfuse.errors import ModelError, QuickAnswerWarning

pytestmark = pytest.mark.usefixtures("few_draws", "shared_errors")
QUIET = {"random_seed": 5, "minutes": 10, "progressbar": False}


def probabilities(result):
    return bf.label_probabilities(result).values


@pytest.fixture(scope="module")
def gold(crowd):
    items = crowd.responses.items[::3].tolist()
    return {item: int(crowd.truth[::3][n]) for n, item in enumerate(items)}


@pytest.fixture(scope="module")
def told(crowd, gold, few_draws):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayesfuse.ensemble.fuse.check", lambda *_: {})
        patch.setattr("bayesfuse.ensemble.evidence.Evidence.independence", 0.0)
        return bf.fuse(crowd.responses.to_frame(), gold=gold, **QUIET)


def test_members_are_fitted_without_gold(told, fused, gold):
    for name, own in told["models"].children.items():
        assert "gold" not in own["constant_data"]
        np.testing.assert_array_equal(probabilities(own), probabilities(fused["models"][name]))
    known = told["constant_data"]["gold"].values
    assert (known >= 0).sum() == len(gold) and known[0] == gold[0]


def test_without_known_labels_nothing_changes(crowd, fused):
    assert "known_labels" not in fused.children
    inputs = Inputs(crowd.responses, gold={})
    assert hold_out_gold(inputs).known is None


def test_everything_comes_from_the_answer_with_known_labels(told, gold, crowd):
    drawn = told["label_draws"]["label"]
    assert drawn.dims == ("sample", "item") and drawn.sizes["sample"] == 400
    assert (drawn.sel(item=list(gold)).values == list(gold.values())).all()
    at = [each for each, item in enumerate(crowd.responses.items) if item in gold]
    np.testing.assert_array_equal(probabilities(told)[at], np.eye(3)[list(gold.values())])
    raters = told.raters()
    assert (raters["low"] <= raters["accuracy"]).all()
    text = told.overview()
    text = " ".join(text.split())
    assert "Known labels:" in text and "(14), the models have" in text
    assert "as certain as they should be" in text and "14 are known" in told.headline
    expected = float(bf.decisions.expected_errors(told)["expected"])
    assert np.isclose(expected, (1 - probabilities(told).max(axis=1)).sum())


def test_the_explanation_gives_the_same_labels(told, crowd, gold):
    space = {"frame": crowd.responses.to_frame(), "gold": gold}
    code = told.explain().replace("quiet=True", "quiet=True, progressbar=False")
    assert "WeightedVotes(responses, gold" in code and "gold=gold" not in code
    exec(code.split("print(bf.label_probabilities")[0], space)
    np.testing.assert_allclose(probabilities(space["fused"]), probabilities(told), atol=1e-6)


def test_odd_known_labels():
    answers = [[0, 1, 1], [1, 1, 0], [0, 0, 0], [-1, -1, -1]] * 5
    table = bf.Responses.from_matrix(answers, items=list(range(20)))
    silent = hold_out_gold(Inputs(table, gold={3: 1}))  # an item without responses
    assert silent.known is None and silent.gold == {3: 1}
    refused("no known item has responses", hold_out_gold, Inputs(table, gold={3: 1}), 0.1)
    quick = {"minutes": 1e-9, "random_seed": 1, "progressbar": False}
    with pytest.warns(QuickAnswerWarning):
        unused = bf.fuse(table, gold={3: 1, 7: 0}, **quick)
    assert "No known item has responses (2 known)" in unused.overview()
    every = {item: item % 2 for item in range(20)}
    for gold in ({0: 1}, {0: 1, 1: 1, 4: 1}, {0: 0, 3: 1}, every):
        with pytest.warns(QuickAnswerWarning):
            quick = bf.fuse(table, gold=gold, minutes=1e-9, random_seed=1, progressbar=False)
        found = probabilities(quick)
        assert np.isfinite(found).all() and quick.labels().shape == (20, 4)
        unknown = [item for item in range(20) if item not in gold]
        assert not unknown or found[unknown].max() < 0.999
        assert (found[list(gold), list(gold.values())] == 1).all()
        assert len(quick.raters()) == 3
        space = {"responses": table, "gold": gold}
        exec(quick.explain(), space)
        np.testing.assert_allclose(probabilities(space["fused"]), found, atol=1e-12)


def test_known_labels_from_a_file_that_is_half_filled_in_may_be_doubtful(tmp_path):
    table = bf.Responses.from_matrix([[0, 0, 0], [1, 1, 1], [0, 1, 1], [1, 0, 0]] * 10)
    (tmp_path / "known.csv").write_text("item,label\n0,0\n1,1\n2,\n4,0\n5,0\n")
    settings = {"minutes": 1e-9, "random_seed": 1, "progressbar": False}
    with pytest.warns(QuickAnswerWarning):
        quick = bf.fuse(table, gold=tmp_path / "known.csv", gold_error=0.2, **settings)
    assert np.flatnonzero(quick["constant_data"]["gold"] >= 0).tolist() == [0, 1, 4, 5]
    found = probabilities(quick)
    assert 0.9 < found[0, 0] < 1 and 0.1 < found[5, 0] < 0.9  # all raters say 1 of the last
    assert "gold_error=0.2" in quick.explain()
    assert 'id="known"' in quick.report(tmp_path / "report.html").read_text()
    graph = bf.Graph.grid((4, 10), items=table.items.tolist())
    with pytest.raises(ModelError, match=r"take known labels as certain.*gold_error=0\.2"):
        bf.fuse(table, gold={0: 0}, gold_error=0.2, graph=graph, **settings)


def test_known_tags_that_continue_no_span_begin_it():
    """Said once, in the answer and in its code; tags after unknown ones may be right."""
    tags = [["O"] * 3, ["B-X"] * 3, ["I-X"] * 3, ["B-Y"] * 3, ["I-Y"] * 3] * 4
    table = bf.Responses.from_matrix(tags[::-1])
    sentences = bf.Sequences.from_lengths([10, 10], items=list(range(19, -1, -1)))
    gold = {19: "I-Y", 18: "I-Y", 16: "B-X", 15: "I-Y", 12: "I-X", 8: "O", 7: "I-X", 6: "I-X"}
    settings = {"minutes": 1e-9, "random_seed": 1, "progressbar": False}
    with pytest.warns(QuickAnswerWarning, match="takes longer"):
        quick = bf.fuse(table, sequences=sentences, gold=gold, **settings)
    mended = {19: "B-Y", 15: "B-Y", 7: "B-X"}
    label = quick.labels().set_index("item")["label"]
    assert label[list(gold)].to_dict() == gold | mended
    assert "(3): item 7 as B-X, 15 as B-Y, 19 as B-Y." in quick.attrs["known"]
    space = {"responses": table, "gold": gold, "sequences": sentences}
    exec(quick.explain(), space)
    np.testing.assert_array_equal(probabilities(space["fused"]), probabilities(quick))
    inside = bf.Responses.from_matrix([["O"] * 3, ["I"] * 3] * 9 + [["B"] * 3] * 2)
    inputs = Inputs(inside, bf.Sequences.from_lengths([20]), gold={0: "O", 1: "I"})
    assert mend_tags(inputs) is inputs  # spans of these raters begin with an I


def test_chosen_items_are_noticed():
    made = bf.datasets.simulate_dawid_skene(300, 6, 2, random_seed=1)
    shares = probabilities(bf.vote_shares(made.responses)).max(axis=1)
    sure = np.argsort(-shares)[:60]
    for chosen, said in ((sure, True), (np.arange(60), False)):
        gold = {int(item): int(made.truth[item]) for item in chosen}
        with pytest.warns(QuickAnswerWarning):
            quick = bf.fuse(made.responses, gold=gold, minutes=1e-9, progressbar=False)
        assert ("look chosen" in quick.overview()) == said


@pytest.mark.parametrize("known", with_slow([False, True], True))
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
    assert bf.decisions.difficulty(loaded).equals(answer["difficulty"].to_dataset())
    unknown = np.flatnonzero(np.arange(40) % 3)[13:]
    new = crowd.responses.take(unknown)
    expected = answer.probabilities().loc[unknown].to_numpy()
    # draws are thinned, and new items weigh them anew
    prediction = bf.predict(loaded, new)
    assert set(prediction["raters"]["source"].values.tolist()) == {"fitted"}
    found = bf.label_probabilities(prediction).values
    np.testing.assert_allclose(found, expected, atol=0.12)
    for call in (bf.decode, az.loo, bf.checks.item_difficulty):
        refused(r'fused\["models/consensus"\]', call, loaded)
    assert "</table>" in loaded._repr_html_() and "<svg" in loaded._repr_html_()


def test_the_first_line_describes_how_the_table_was_read(told):
    assert told.overview().startswith("Read as a long table, one row per response (columns item,")
    refused_table("few classes", bf.fuse, np.arange(60).reshape(-1, 3) * 5)


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
    told = bf.fuse(noisy, sequences=sequences, gold=dict(enumerate(tags[:20])), **QUIET)
    pd.testing.assert_frame_equal(bf.spans(told), bf.spans(told, sequences))
    unknown = told.probabilities().iloc[20:].max(axis=1)
    assert (
        f"Unknown items with a label of probability 0.95 or more: {(unknown >= 0.95).sum()}. "
        in (told.headline)
    )
    assert "chosen at random from all sequences" in "".join(answer.advice)
    refused("sequences must be a bf.Sequences", bf.fuse, noisy, sequences=sequences.to_frame())
    refused(r"bf\.spans\(fused\).*models/sequences.*an average of seq", bf.decode, answer)
    strip = bf.plots.plot_sequence(answer)[0].patches
    assert strip[0].get_data().values.sum() == pytest.approx(
        answer.probabilities().iloc[:20, 0].sum()
    )
    refused(r"Got: an average of sequences; tags alone", bf.decisions.difficulty, answer)
    runs = bf.spans(answer, scheme="runs", outside=None)
    assert (runs["stop"] - runs["start"]) @ runs["probability"] == pytest.approx(40)
    page = answer.report(tmp_path / "page.html").read_text(encoding="utf-8")
    chosen = bf.spans(answer)["chosen"].sum()
    assert f"Spans with the largest expected F1: {chosen}" in page and chosen >= 6
    raters = page[page.index('id="raters"') :].partition("</table>")[0]
    assert raters.count("<tr>") == 1 + len(answer.raters())
    refused(r"ends in \.html.*page\.pdf", answer.report, tmp_path / "page.pdf")
