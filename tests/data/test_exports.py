"""Exports of annotation tools and logs of judges, in their public layouts, become responses."""

import gzip
import json
import zipfile

import pandas as pd
import pytest
from refusals import refused_as, refused_table

import bayesfuse as bf
from bayesfuse.__main__ import main
from bayesfuse.command_line.arguments import parse
from bayesfuse.command_line.tables import read_tables
from bayesfuse.errors import ModelError

SECRET = "Text of an item, which no message may hold"
EXPECTED = [[1, "ann", "good"], [1, "bob", "bad"], [2, "ann", "bad"], [3, "bob", "good|bad"]]
ROWS = [*EXPECTED, [2, "bob", None]]  # bob skipped item 2


def choice(labels, name="sentiment"):
    value = {"choices": labels}
    return {"id": "a1", "from_name": name, "to_name": "text", "type": "choices", "value": value}


def label_studio():
    tasks = {n: {"id": n, "data": {"text": SECRET}, "annotations": []} for n in (1, 2, 3)}
    for n, who, label in ROWS:
        result = [choice(label.split("|"))] if label else []
        mark = {"completed_by": {"id": 7, "email": who}, "result": result}
        tasks[n]["annotations"].append(mark | {"was_cancelled": not label, "ground_truth": False})
    return {"export.json": json.dumps([*tasks.values()])}


def label_studio_csv(as_json=False):
    rows = [
        {"annotation_id": k, "annotator": who, "created_at": "2024-01-01T00:00:00Z", "id": n,
         "lead_time": 3.2, "sentiment": label, "text": SECRET}
        for k, (n, who, label) in enumerate(ROWS)
    ]  # fmt: skip
    rows[3]["sentiment"] = {"choices": ["good", "bad"]}
    if as_json:
        return {"export.json": json.dumps(rows)}
    rows[3]["sentiment"] = json.dumps(rows[3]["sentiment"])
    return {"export.csv": pd.DataFrame(rows).to_csv(index=False)}


def prodigy():
    lines = [
        {"text": SECRET, "_input_hash": n, "_task_hash": -n, "options": [{"id": "good"}],
         "accept": label.split("|") if label else [], "answer": "accept" if label else "ignore",
         "_annotator_id": who, "_session_id": who}
        for n, who, label in ROWS
    ]  # fmt: skip
    return {"out.jsonl": "\n".join(map(json.dumps, lines))}


def doccano(as_csv=False):
    files = {"ann": [], "bob": []}
    for n, who, label in ROWS:
        labels = label.split("|") if label else []
        files[who].append({"id": n, "text": SECRET, "label": labels, "Comments": []})
    if not as_csv:
        return {f"{who}.jsonl": "\n".join(map(json.dumps, rows)) for who, rows in files.items()}
    tables = {who: pd.DataFrame(rows) for who, rows in files.items()}
    return {
        f"{who}.csv": table.assign(label=table["label"].map("#".join)).to_csv(index=False)
        for who, table in tables.items()
    }


def mturk(kind="label"):
    table = pd.DataFrame(ROWS, columns=["HITId", "WorkerId", "Answer.quality.label"])
    table = table.assign(AssignmentStatus="Approved", **{"Input.text": SECRET})
    rejected = table.iloc[:1].assign(AssignmentStatus="Rejected", WorkerId="spammer")
    table = pd.concat([table, rejected])
    sets = table.pop("Answer.quality.label").fillna("").str.split("|")
    if kind == "columns":
        for name in ("good", "bad"):
            table[f"Answer.quality.{name}"] = [str(name in s).lower() for s in sets]
    elif kind == "JSON":
        marks = [{"quality": {name: name in s for name in ("good", "bad")}} for s in sets]
        table["Answer.taskAnswers"] = [json.dumps([mark]) for mark in marks]
    else:
        table["Answer.quality.label"] = ["|".join(sorted(s)) for s in sets]
    return {"Batch_1_batch_results.csv": table.to_csv(index=False)}


EXPORTS = {
    "label-studio": ("label_studio", label_studio(), {}),
    "label-studio, csv": ("label_studio", label_studio_csv(), {"label": "sentiment"}),
    "label-studio, json-min": ("label_studio", label_studio_csv(True), {"label": "sentiment"}),
    "prodigy": ("prodigy", prodigy(), {}),
    "doccano": ("doccano", doccano(), {}),
    "doccano, csv": ("doccano", doccano(as_csv=True), {}),
    "mturk": ("mturk", mturk(), {}),
    "mturk, columns": ("mturk", mturk("columns"), {"label": "Answer.quality"}),
    "mturk, json": ("mturk", mturk("JSON"), {}),
}


def written(files, folder):
    for name, text in files.items():
        (folder / name).write_text(text)
    return [folder / name for name in files]


@pytest.mark.parametrize("export", EXPORTS)
def test_exports_are_read_in_python_and_in_the_shell(export, tmp_path, capsys):
    reader, files, settings = EXPORTS[export]
    paths = written(files, tmp_path)
    table = getattr(bf.io, f"read_{reader}")(paths, **settings)
    expected = [[n, who, "|".join(sorted(label.split("|")))] for n, who, label in EXPECTED]
    assert table.to_frame().to_numpy().tolist() == expected
    assert table.items.tolist() == [1, 2, 3] and table.raters.tolist() == ["ann", "bob"]
    options = [part for name, text in settings.items() for part in (f"--{name}", text)]
    kind = ["--format", reader.replace("_", "-")]
    assert main(["doctor", *map(str, paths), *kind, *options]) == 0
    printed = capsys.readouterr().out
    assert f"Read as {kind[1]} (--format)" in printed and SECRET not in printed
    in_shell = read_tables(parse(["doctor", *map(str, paths), *kind, *options])).responses
    assert in_shell.to_frame().to_numpy().tolist() == expected
    assert in_shell.items.tolist() == table.items.tolist()


@pytest.mark.parametrize("export", ["label-studio", "prodigy", "doccano", "mturk"])
def test_exports_are_recognised(export, tmp_path, capsys):
    reader, files, _ = EXPORTS[export]
    path = written(files, tmp_path)[0]
    refused_table(f"bf.io.read_{reader} reads", bf.fuse, path)
    assert main(["doctor", str(path)]) == 2
    message = capsys.readouterr().err
    assert f"--format {reader.replace('_', '-')}" in message and SECRET not in message


def test_several_tables_are_read_as_one(tmp_path, capsys):
    rows = {"a.csv": "item,rater,label\n1,x,no\n", "b.csv": "item,rater,label\n1,y,\n"}
    first, second = map(str, written(rows, tmp_path))
    assert main(["doctor", first, second, "--drop-empty"]) == 2  # one class
    assert main(["doctor", first, second, first]) == 2
    assert f"line 2 of {second}" in capsys.readouterr().err
    (other,) = written({"c.csv": "item,rater\n1,x\n"}, tmp_path)
    assert main(["doctor", first, str(other)]) == 2
    assert "same columns" in capsys.readouterr().err
    assert main(["doctor", first, second, "--format", "mturk", "--wide"]) == 2
    assert "--wide describes a table" in capsys.readouterr().err


def test_archives_and_compressed_files(tmp_path):
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for name, text in doccano().items():
            archive.writestr(name, text)
    table = bf.io.read_doccano(tmp_path / "export.zip")
    assert table.raters.tolist() == ["ann", "bob"] and table.n_responses == 4
    path = tmp_path / "ann.jsonl.gz"
    path.write_bytes(gzip.compress(doccano()["ann.jsonl"].encode()))
    assert bf.io.read_doccano(path).to_frame().to_numpy().tolist() == [
        [1, "ann", "good"], [2, "ann", "bad"]
    ]  # fmt: skip


def test_binary_answers_are_of_one_label(tmp_path):
    tasks = [
        {"_input_hash": n, "label": label, "answer": answer, "_session_id": session}
        for n, label, answer, session in [
            (1, "RUDE", "accept", "db-2024-01-01_10-00-00"), (1, "SPAM", "reject", "db-ann"),
            (2, "RUDE", "reject", "db-ann"), (3, "RUDE", "ignore", "db-ann"),
        ]
    ]  # fmt: skip
    (path,) = written({"bob.jsonl": "\n".join(map(json.dumps, tasks))}, tmp_path)
    table = bf.io.read_prodigy(path, label="RUDE")
    # a session without a name is of the annotator of the file
    assert table.to_frame().to_numpy().tolist() == [[1, "bob", "accept"], [2, "db-ann", "reject"]]
    assert table.items.tolist() == [1, 2, 3]
    refused_table("'RUDE', 'SPAM'", bf.io.read_prodigy, path)


def test_one_of_several_controls_or_answers_is_chosen(tmp_path):
    mark = {"completed_by": 1, "result": [choice(["x"]), choice(["y"], "other")]}
    stars = {"from_name": "stars", "type": "rating", "value": {"rating": 4}}
    task = {"id": 9, "data": {"key": "k"}, "annotations": [mark, {**mark, "result": [stars]}]}
    (path,) = written({"export.json": json.dumps([task])}, tmp_path)
    refused_table("'other', 'sentiment', 'stars'", bf.io.read_label_studio, path)
    other = bf.io.read_label_studio(path, item="key", label="other", classes=["y", "x"])
    assert other.to_frame().to_numpy().tolist() == [["k", 1, "y"]]
    assert other.classes.tolist() == ["y", "x"]
    ratings = bf.io.read_label_studio(path, label="stars", classes=[3, 4, 5], ordered=True)
    assert ratings.ordered and ratings.to_frame()["label"].tolist() == [4]
    (batch,) = written({"b.csv": "HITId,WorkerId,Answer.a,Answer.b\nh,w,1,2\n"}, tmp_path)
    refused_table("'a', 'b'", bf.io.read_mturk, batch)
    assert bf.io.read_mturk(batch, label="Answer.b", classes=[1, 2]).to_frame()[
        "label"
    ].tolist() == [2]


@pytest.mark.parametrize("wrong", ["none", "", -1, []])
def test_a_label_that_is_not_there_is_not_ignored(wrong, tmp_path):
    for reader, files, _ in EXPORTS.values():
        if reader != "doccano":  # whose label= is a column
            paths = written(files, tmp_path)
            read = getattr(bf.io, f"read_{reader}")
            refused_table("label= chooses", read, paths, label=wrong)
    log = {"eval": {"model": "m"}, "samples": [{"id": 1, "scores": {"strict": {"value": "C"}}}]}
    (path,) = written({"log.json": json.dumps(log)}, tmp_path)
    refused_table("score= chooses", bf.io.read_inspect, path, score=wrong)


def test_refusals(tmp_path):
    spans = {"id": 1, "text": SECRET, "label": [[0, 4, "ORG"]]}
    files = {"a.jsonl": json.dumps(spans), "b.json": "[1, 2]", "c.json": "[" * 10**5,
             "d.jsonl": '{"id": 1, "label": []}'}  # fmt: skip
    box = {"type": "rectanglelabels", "value": {"rectanglelabels": ["Car"]}, "from_name": "label"}
    task = {"id": 1, "annotations": [{"completed_by": 1, "result": [box]}], "data": {}}
    files["regions.json"] = json.dumps([task])
    ann, numbers, deep, empty, regions = written(files, tmp_path)
    refused_table("'rectanglelabels'", bf.io.read_label_studio, regions)
    refused_table("bf.io.read_spans", bf.io.read_doccano, ann)
    refused_table("none in 1", bf.io.read_doccano, empty)
    for path in (numbers, deep, tmp_path / "absent.json"):
        refused_as(ModelError, "An export is the path", bf.io.read_doccano, path)
    for table in (pd.DataFrame({"a": [1]}), [], [{"id": 1}], 3):
        refused_as(ModelError, "path must be", bf.io.read_mturk, table)
    refused_as(ModelError, "path must be", bf.io.read_verdicts, [{"id": 1}])
    (other,) = written(
        {"ner.jsonl": '{"_input_hash": 1, "answer": "accept", "spans": []}'}, tmp_path
    )
    refused_table("bf.io.read_spans", bf.io.read_prodigy, other)
    (other,) = written(prodigy(), tmp_path)
    refused_table("bf.io.read_prodigy reads", bf.io.read_mturk, other)
    refused_table("bf.io.read_prodigy reads", bf.io.read_inspect, other)


def test_judgments_of_a_pair_in_both_orders_are_of_one_item(tmp_path, capsys):
    """Both orders of a pair and both columns of models are the same item (FastChat, MT-Bench)."""
    game = {"question_id": 81, "judge": ["gpt-4", "pair-v2"], "turn": 1, "g1_judgment": SECRET}
    games = [
        game | {"model_1": "z", "model_2": "a", "g1_winner": "model_1", "g2_winner": "model_2"},
        game | {"model_1": "a", "model_2": "z", "g1_winner": "tie", "g2_winner": "error"},
    ]
    (path,) = written({"gpt-4_pair.jsonl": "\n".join(map(json.dumps, games))}, tmp_path)
    table, items, orders = bf.io.read_verdicts(path)
    assert orders == [("gpt-4", "gpt-4 (swapped)")]
    assert items.loc["81 / 1 / a / z", "model_a"] == "a"
    assert sorted(table.to_frame()[["rater", "label"]].to_numpy().tolist()) == [
        ["gpt-4", "A"], ["gpt-4", "tie"], ["gpt-4 (swapped)", "B"]
    ]  # fmt: skip
    assert main(["doctor", str(path), "--format", "verdicts"]) == 0
    assert SECRET not in capsys.readouterr().out
    path.write_text(json.dumps(games[0]))  # one order is kept
    as_shown = bf.io.read_verdicts(path)
    assert as_shown.items["model_a"].tolist() == ["z"]
    assert as_shown.responses.to_frame()["label"].tolist() == ["A", "B"]
    winners = ["model_a", "model_b", "tie (inconsistent)", "tie (bothbad)"]
    models = {"model_a": ["z", "a", "a", "a"], "model_b": ["a", "z", "z", "z"]}
    pairs = pd.DataFrame({"question_id": [1, 1, 2, 3]} | models | {"winner": winners, "judge": "u"})
    votes = bf.io.read_verdicts(pairs).responses.to_frame()
    assert votes["label"].tolist() == ["B", "B", "tie", "tie"]
    pairs["winner"] = ["z", "z", "tie", "tie"]  # names in place of sides
    pd.testing.assert_frame_equal(bf.io.read_verdicts(pairs).responses.to_frame(), votes)
    outcomes = {"winner_model_a": [1, 0, 0, 0], "winner_model_b": [0, 1, 0, 0]}
    arena = pairs.drop(columns="winner").assign(**outcomes, winner_tie=[0, 0, 1, 1])
    pd.testing.assert_frame_equal(bf.io.read_verdicts(arena).responses.to_frame(), votes)
    wide = pairs.drop(columns=["winner", "judge"]).assign(winner_u=winners, winner_v=winners)
    two = bf.io.read_verdicts(wide).responses
    assert two.raters.tolist() == ["u", "u (swapped)", "v", "v (swapped)"] and two.n_responses == 8


@pytest.mark.parametrize("none", [0, None])
def test_pairs_without_an_outcome_are_not_judged(none):
    outcomes = {f"winner_{name}": [1, none] for name in ("model_a", "model_b", "tie")}
    outcomes |= {"winner_model_a": [0, none], "winner_tie": [0, none]}
    table = pd.DataFrame({"id": [1, 2], "model_a": "x", "model_b": "y"} | outcomes)
    read = bf.io.read_verdicts(table, judge="judge").responses
    assert read.to_frame()[["item", "label"]].to_numpy().tolist() == [["1 / x / y", "B"]]
    assert read.n_items == 2


def test_pairs_in_one_order_stay_as_shown_beside_pairs_in_both():
    models = {"model_a": ["z", "a", "z"], "model_b": ["a", "z", "a"]}
    pairs = pd.DataFrame({"question_id": [1, 1, 2], "winner": "model_a", "judge": "u"} | models)
    responses, items, orders = bf.io.read_verdicts(pairs)
    assert items["model_a"].to_dict() == {"1 / a / z": "a", "2 / z / a": "z"}
    assert sorted(responses.to_frame().to_numpy().tolist()) == [
        ["1 / a / z", "u", "A"], ["1 / a / z", "u (swapped)", "B"], ["2 / z / a", "u", "A"]
    ]  # fmt: skip
    assert orders == [("u", "u (swapped)")]


def test_verdicts_of_own_columns_are_those_of_python(tmp_path, capsys):
    rows = [
        (q, s, j, "AB"[(q + len(s + j)) % 2]) for q in (1, 2) for s in "xy" for j in ("m", "nn")
    ]
    frame = pd.DataFrame(rows, columns=["question", "system", "grader", "choice"])
    path = tmp_path / "own.csv"
    frame.to_csv(path, index=False)
    table = bf.io.read_verdicts(path, item=["question", "system"], judge="grader", verdict="choice")
    options = "--format verdicts --item question,system --rater grader --label choice".split()
    in_shell = read_tables(parse(["doctor", str(path), *options])).responses
    pd.testing.assert_frame_equal(in_shell.to_frame(), table.responses.to_frame())
    assert main(["doctor", str(path), "--format", "verdicts"]) == 2
    assert "--item, --rater, --label and" in capsys.readouterr().err
    assert main(["doctor", str(path), "--format", "doccano", "--rater", "grader"]) == 2


def test_scores_of_single_answers_are_grades(tmp_path):
    lines = [
        {"question_id": 81, "model": model, "judge": ["gpt-4", "single-v1"], "judgment": SECRET,
         "score": score, "turn": turn}
        for model, score, turn in [("a", 8.5, 1), ("a", -1, 2), ("b", 10, 1)]
    ]  # fmt: skip
    (path,) = written({"gpt-4_single.jsonl": "\n".join(map(json.dumps, lines))}, tmp_path)
    table, items, _ = bf.io.read_verdicts(path)
    assert table.ordered and table.to_frame()["label"].tolist() == [8.5, 10]
    in_shell = read_tables(parse(["doctor", str(path), "--format", "verdicts"])).responses
    assert in_shell.ordered and in_shell.classes.tolist() == [8.5, 10.0]
    assert in_shell.items.tolist() == table.items.tolist()
    assert items["model"].tolist() == ["a", "a", "b"]  # -1 is a judge without a score


@pytest.mark.parametrize("kind", ["json", "eval"])
def test_logs_of_inspect_have_judges_and_epochs(kind, tmp_path, capsys):
    graders = [{"name": "model_graded_qa", "options": {"model": m}} for m in ("x/y", "z")]
    header = {"eval": {"task": "t", "model": "m", "scorers": graders}, "status": "success"}
    samples = [
        {"id": n, "epoch": epoch, "input": SECRET,
         "scores": {"model_graded_qa": {"value": "C", "explanation": SECRET},
                    "model_graded_qa1": {"value": "I" if epoch == 1 else float("nan")}}}
        for n in (1, 2) for epoch in (1, 2)
    ]  # fmt: skip
    path = tmp_path / f"log.{kind}"
    if kind == "json":
        path.write_text(json.dumps(header | {"samples": samples}))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for sample in samples:
                name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
                archive.writestr(name, json.dumps(sample))
            archive.writestr("header.json", json.dumps(header))
    table, items, _ = bf.io.read_inspect(path)
    assert table.raters.tolist() == ["model_graded_qa x/y", "model_graded_qa1 z"]
    assert table.classes.tolist() == ["I", "C"]  # the last one is positive
    assert table.n_responses == 6 and items.loc["2 / 1", "sample"] == 2
    assert main(["doctor", str(path), "--format", "inspect"]) == 0
    assert SECRET not in capsys.readouterr().out
    if kind == "json":
        refused_table("bf.io.read_inspect reads", bf.fuse, path)
        samples[0]["scores"]["model_graded_qa"]["value"] = {"accuracy": "C", "style": "I"}
        path.write_text(json.dumps(header | {"samples": samples[:1]}))
        refused_table("'accuracy', 'style'", bf.io.read_inspect, path)
