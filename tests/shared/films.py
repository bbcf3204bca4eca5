"""Five verdicts of two critics on two films, for several test files."""

TABLE = {
    "film": ["B", "A", "B", "A", "A"],
    "critic": ["y", "x", "x", "y", "x"],
    "verdict": ["good", "bad", "bad", "good", "bad"],
}
COLUMNS = {"item": "film", "rater": "critic", "label": "verdict"}


def rows_of(responses):
    return responses.to_frame().values.tolist()
