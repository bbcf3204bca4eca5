"""Files with a word and its tags in a line."""

import re

import pandas as pd
import pytest
from refusals import refused_table

import bayesfuse as bf


@pytest.mark.parametrize("word", ["New York", "", "a\tb", "a\nb", "a\u2028b", "-DOCSTART-"])
def test_words_that_would_break_a_file_of_tags_are_refused(word, tmp_path):
    sentences = bf.Sequences.from_lengths([2, 1])
    words, tags = pd.Series(["left", word, "Hello"]), pd.Series(["O", "B", "O"])
    path = tmp_path / "tags.conll"
    refused_table(re.escape(repr(word)), bf.io.write_conll, path, words, sentences, tags)
    assert not path.exists()


def test_written_files_are_read_again(tmp_path):
    sentences = bf.Sequences.from_lengths([2, 1])
    words, tags = pd.Series(["left", "Paris", "Hello"]), pd.Series(["O", "B", "O"])
    bf.io.write_conll(tmp_path / "tags.conll", words, sentences, tags, tags[::-1])
    responses, order, again = bf.io.read_conll(tmp_path / "tags.conll")
    assert again.tolist() == words.tolist() and order.lengths.tolist() == [2, 1]
    assert responses.classes[responses.label].tolist() == ["O", "O", "B", "B", "O", "O"]
