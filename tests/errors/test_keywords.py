"""A keyword argument that belongs to another function is refused by the name of that function."""

import inspect
import operator
import re

import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError

FUNCTIONS = [f for name in bf.__all__ if inspect.isfunction(f := getattr(bf, name))]
MODELS = [getattr(bf.models, name) for name in bf.models.__all__]
OPTIONS = {
    name
    for function in (bf.fuse, bf.sample, bf.fit, bf.find_map, *MODELS)
    for name, parameter in inspect.signature(function).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}


@pytest.mark.parametrize("function", [*FUNCTIONS, *MODELS])
def test_options_of_other_functions_are_refused_with_their_place(function):
    own = inspect.signature(function).parameters
    others = sorted(OPTIONS - {*own})
    assert len(others) > 20
    for name in others:
        with pytest.raises(ModelError, match=rf"takes no {name}=: .*Got: {name}=") as error:
            function(**{name: 1})
        if owner := re.search(r"argument of bf\.([\w.]+)\.", str(error.value)):
            taker = operator.attrgetter(owner[1])(bf)
            assert name in inspect.signature(taker).parameters, str(error.value)


def test_a_result_to_continue_is_for_one_model():
    with pytest.raises(ModelError, match=r"fuse takes no resume=: bf\.sample.*fused\.to_netcdf"):
        bf.fuse([[0, 1]], resume=3)
    with pytest.raises(TypeError, match="unexpected"):
        bf.fuse([[0, 1]], no_option_of_any_function=3)


def test_a_model_of_ones_own_hands_on_what_it_takes():
    class Own(bf.build.LabelModel):
        def __init__(self, responses, **kwargs):
            super().__init__(responses, **kwargs)

    assert Own([[0, 1]], gold={0: 1}).gold is not None
