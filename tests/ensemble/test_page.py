"""The report of an answer as a page: its opening, names, groups, and the page in a browser."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from browser import Page, needs_browser

import bayesfuse as bf
from bayesfuse.errors import QuickAnswerWarning

HOSTILE = "<script>alert(1)</script>"


def json_of(page, name):
    """Return the data of a script of the page."""
    return json.loads(
        re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page)[1]
    )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """An answer with names that are code, of a file with columns of other names; and its file."""
    folder = tmp_path_factory.mktemp("page")
    made = bf.datasets.simulate_dawid_skene(30, 4, 2, random_seed=1).responses.to_frame()
    names = np.array([f"{HOSTILE} {n}" for n in range(30)])
    table = pd.DataFrame(
        {
            "question": names[made["item"]],
            "worker": names[made["rater"]],
            "answer": np.array(["</style><b>no", "yes & 'more'"])[made["label"]],
        }
    )
    table.to_csv(folder / "votes.csv", index=False)
    settings = {"minutes": 1e-9, "random_seed": 1, "progressbar": False}
    with pytest.warns(QuickAnswerWarning):
        return bf.fuse(folder / "votes.csv", **settings), folder / "votes.csv"


def test_the_page_opens_with_the_result(fused, tmp_path):
    page = fused.report(tmp_path / "page.html").read_text(encoding="utf-8")
    errors = bf.decisions.expected_errors(fused, random_seed=0)
    low, high = (int(errors[end]) for end in ("low", "high"))
    opening = re.search(r'<p class="opening">(.*?)</p>', page)[1]
    assert re.match(rf"[\d.]+ of 40 labels are expected to be wrong \({low}–{high}\)", opening)
    assert page.index('class="opening"') < page.index("What to do next") < page.index("<table")
    assert f"bayesfuse {bf.__version__}</title>" in page
    assert 'class="opening">' + opening in fused._repr_html_()


@pytest.mark.parametrize("has_silent", [False, True])
def test_the_least_certain_items_are_said_to_be_those_with_responses(fused, has_silent, tmp_path):
    answer = fused.copy(deep=True)
    item = answer["constant_data"]["item_index"].values
    if has_silent:
        item[item == 7] = 6
    page = answer.report(tmp_path / "page.html").read_text(encoding="utf-8")
    title = bf.plots.plot_overview(answer)["items"].get_title()
    for text, words in (
        (answer.overview(), "least certain, of those with responses "),
        (answer._repr_html_(), "The least certain labels, of items with responses<"),
        (page, "least certain come first, those of items without responses last."),
        (" ".join(title.split()), "items with responses (least certain"),
    ):
        assert (words in text) == has_silent and "least certain" in text, text


def test_items_with_the_same_probabilities_are_named_once():
    table = bf.Responses.from_long(
        {"item": [1, 1, 2, 2, 3, 3, 4], "rater": list("abababa"), "label": list("xxxyyxy")}
    )
    with pytest.warns(QuickAnswerWarning):
        answer = bf.fuse(table, minutes=1e-9, random_seed=1, progressbar=False)
    rows = answer.overview().partition("least certain")[2].splitlines()[1:4]
    assert [row.partition("  ")[0] for row in rows] == ["2 and 1 alike", "4", "1"]


@pytest.mark.slow
def test_the_opening_counts_raters_who_are_worse_than_guessing(tmp_path):
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=150)
    right = rng.random((150, 5)) < [0.9, 0.85, 0.9, 0.85, 0.15]
    table = bf.Responses.from_matrix(np.where(right, truth[:, None], 1 - truth[:, None]))
    answer = bf.fuse(table, minutes=5, checks=False, random_seed=1, progressbar=False)
    page = answer.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "; 1 rater is worse than guessing.</p>" in page
    assert any(line.startswith("Ask rater 4 what the labels mean") for line in answer.advice)


@pytest.mark.slow
def test_a_loaded_answer_has_the_same_page(fused, tmp_path):
    fused.to_netcdf(tmp_path / "answer.nc")
    loaded = bf.load(tmp_path / "answer.nc")
    pages = [answer.report(tmp_path / "page.html").read_text() for answer in (fused, loaded)]
    assert pages[0] == pages[1]
    for name in (
        "opening",
        "why_wide",
        "facts",
        "columns",
        "source",
        "notes",
    ):  # of 0.3 there were none
        del loaded.attrs[name]
    assert loaded.headline in loaded.report(tmp_path / "page.html").read_text().replace(
        "&#39;", "'"
    )


def test_names_are_escaped_and_columns_are_those_of_the_file(hostile, tmp_path):
    answer, file = hostile
    page = answer.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page and "<b>no" not in page
    assert "<script>alert" not in answer._repr_html_()
    assert "<h1>votes.csv" in page and "raters are not judged" in page
    assert re.findall(r'<button type="button">(\w+)</button>', page)[:2] == ["question", "answer"]
    rows = json_of(page, "csv").splitlines()
    assert rows[0].startswith("question,answer,probability,difficulty,probability_</style>")
    assert len(rows) == 31 and rows[1].startswith(HOSTILE)
    assert 'data-name="votes-labels.csv"' in page
    space = {}
    exec(answer.explain(), space)  # with the reading of the file
    pd.testing.assert_frame_equal(
        space["responses"].to_frame(), bf.Responses.from_long(pd.read_csv(file)).to_frame()
    )


def test_labels_are_listed_the_least_certain_first_and_many_are_cut(fused, tmp_path, monkeypatch):
    monkeypatch.setattr("bayesfuse.ensemble.page.MAX_LABELS", 7)
    page = fused.report(tmp_path / "page.html").read_text(encoding="utf-8")
    body = page[page.index('id="labels"') :].partition("</tbody>")[0]
    assert "lists the first 7 of 40" in body and body.count("<tr>") == 8
    least = bf.decisions.rank_items(fused)
    shown = re.findall(r"<tr><td><span>(\d+)</span></td>", body)
    assert shown == least["item"].astype(str).tolist()[:7]
    assert len(json_of(page, "csv").splitlines()) == 41


def test_items_without_responses_come_last_and_known_ones_are_marked(tmp_path):
    rows = {"item": [1, 1, 2, 2, 3], "rater": list("ababa"), "label": list("xxxyx")}
    table = bf.Responses.from_long(rows, items=range(5))
    with pytest.warns(QuickAnswerWarning):
        answer = bf.fuse(table, gold={1: "x"}, minutes=1e-9, random_seed=1, progressbar=False)
    body = answer.report(tmp_path / "page.html").read_text(encoding="utf-8").partition("<tbody>")[2]
    rows = re.findall(r"<tr><td><span>(\d)</span></td>\s*<td><span>([^<]*)<", body)[:5]
    assert [item for item, _ in rows] == ["2", "3", "1", "0", "4"]
    assert [item for item, label in rows if label == "x (known)"] == ["1"]


def test_a_page_of_single_responses_has_no_agreement(tmp_path):
    table = bf.Responses.from_matrix([[0], [1], [1]])
    assert "agreement" not in repr(table)
    with pytest.warns(QuickAnswerWarning):
        answer = bf.fuse(table, minutes=1e-9, random_seed=1, progressbar=False)
    page = answer.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "responses per rater: 3<" in page and "agreement" not in page


def test_shares_by_group_are_those_of_class_shares(fused, tmp_path):
    by = pd.Series(["old", "new"] * 20, name="period")
    page = fused.report(tmp_path / "page.html", by).read_text(encoding="utf-8")
    shares = bf.class_shares(fused, by, random_seed=fused.attrs["random_seed"]).shares.query(
        "group == 'old'"
    )
    section = page[page.index("Shares by period</h2>") :]
    for row in shares.itertuples():
        assert f"old (20): {row.share:.0%} ({row.low:.0%}–{row.high:.0%})" in section
    assert "Shares by" not in fused.report(tmp_path / "page.html").read_text(encoding="utf-8")


def test_code_of_next_steps_is_folded(fused, tmp_path):
    page = fused.report(tmp_path / "page.html").read_text(encoding="utf-8")
    steps = page[page.index('id="next"') : page.index('class="columns"')]
    plain, code = steps[: steps.index("<details")], steps[steps.index("<details") :]
    assert "<code>" not in plain and "bf." not in plain and "--gold" not in plain
    assert "<code>bf.decisions.next_items" in code and "<code>--gold</code>" in code


@pytest.mark.slow
def test_places_in_sequences_are_those_of_the_items(tmp_path):
    tags = bf.Responses.from_matrix([[0, 0, 1], [1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 0, 0]])
    order = {"item": [4, 1, 3, 0, 2], "sequence": list("aabbb"), "position": [1, 2, 1, 2, 3]}
    sequences = bf.Sequences.from_table(order)
    fused = bf.fuse(
        tags,
        sequences=sequences,
        minutes=1,
        draws=10,
        checks=False,
        random_seed=1,
        progressbar=False,
    )
    body = fused.report(tmp_path / "page.html").read_text(encoding="utf-8").partition("<tbody>")[2]
    rows = re.findall(
        r"<tr><td><span>(\w)</span></td>\s*<td class=\"number\"[^>]*>(\d)</td>\s*<td><span>(\d)<",
        body,
    )
    expected = {(s, str(p), str(i)) for i, s, p in zip(*order.values(), strict=True)}
    assert set(rows[:5]) == expected


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_phones_and_screens_and_loads_nothing(
    fused, hostile, tmp_path, width, scheme
):
    for answer, by in ((fused, ["old", "a longer name of a group"] * 20), (hostile[0], None)):
        path = answer.report(tmp_path / "page.html", by)
        with Page(path, width, scheme) as page:
            page.run("document.querySelectorAll('details').forEach(part => part.open = true)")
            assert page.run("document.documentElement.scrollWidth <= innerWidth")
            assert page.run("innerWidth") == width and page.errors() == []
            assert {*page.requests()} <= {path.as_uri(), "about:blank"}
            assert page.run(CONTRAST) >= 4.5


CONTRAST = """(() => {
  const light = (css) => {
    const rgb = css.match(/[0-9.]+/g).slice(0, 3).map(n => n / 255)
      .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];
  };
  const isClear = (css) => css === "rgba(0, 0, 0, 0)";
  let least = 21;
  for (const part of document.querySelectorAll("main *:not(svg *)")) {
    if (![...part.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
    let behind = part;
    while (isClear(getComputedStyle(behind).backgroundColor)) behind = behind.parentElement;
    const [a, b] = [getComputedStyle(part).color, getComputedStyle(behind).backgroundColor]
      .map(light);
    least = Math.min(least, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return least;
})()"""


@needs_browser
@pytest.mark.slow
def test_the_table_sorts_and_filters(fused, tmp_path):
    def column(page, number):
        rows = "[...document.querySelector('#labels ~ .scroll table').tBodies[0].rows]"
        return page.run(
            f"{rows}.filter(row => !row.hidden).map(row => row.cells[{number}].textContent)"
        )

    labels = fused.labels().astype({"item": str, "label": str})
    with Page(fused.report(tmp_path / "page.html")) as page:
        assert len(column(page, 0)) == 40
        page.run("document.querySelector('#labels ~ .scroll th button').click()")
        assert column(page, 0) == labels["item"].tolist()  # by number: 2 before 10
        page.run("document.querySelector('#labels ~ .scroll th button').click()")
        assert column(page, 0) == labels["item"].tolist()[::-1]
        page.run(
            "const field = document.getElementById('search'); field.value = '39';"
            "field.dispatchEvent(new Event('input'))"
        )
        assert "39" in column(page, 0) and len(column(page, 0)) < 40
        assert "rows" in page.run("document.getElementById('count').textContent")
        assert page.errors() == []


@needs_browser
@pytest.mark.slow
def test_print_opens_what_is_folded_and_leaves_out_tools(fused, tmp_path):
    with Page(fused.report(tmp_path / "page.html")) as page:
        page.run("dispatchEvent(new Event('beforeprint'))")
        assert page.run("document.querySelectorAll('details:not([open])').length") == 0
        page.call("Emulation.setEmulatedMedia", media="print")
        assert page.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
        page.call(
            "Emulation.setDeviceMetricsOverride",
            width=680,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        assert page.run("document.documentElement.scrollWidth <= innerWidth")  # a page of A4
        page.run("dispatchEvent(new Event('afterprint'))")
        assert page.run("document.querySelectorAll('details[open]').length") == 0
