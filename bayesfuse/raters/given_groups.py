"""Which raters share a source: as users say it, as moments find it, as the channel needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.names import listed, unique_names
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, MomentsError
from bayesfuse.moments import find_groups
from bayesfuse.parameters.partition import ALONE


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of at least two raters each; the other raters are alone.

    Attributes
    ----------
    members : dict
        Group names to lists of raters, by name.
    assignment : ndarray of int64, shape (raters,)
        Number of every rater's group, in the order of ``members``; −1 for raters alone.
    origin : str
        Who said so: "given", "moments", or why moments could not.
    """

    members: dict[Any, list[Any]]
    assignment: NDArray[np.int64]
    origin: str

    @property
    def names(self) -> list[Any]:
        """Names of the groups."""
        return list(self.members)

    @classmethod
    def read(cls, groups: Any, responses: Responses) -> Groups:
        """Understand groups as a user gives them, or "moments".

        Raises
        ------
        ModelError
            Unknown raters, a rater in two groups, an empty group, more groups than raters.
        ResponsesError
            Names of groups that a file could not hold.

        Examples
        --------
        >>> import bayesfuse as bf
        >>> from bayesfuse.raters.given_groups import Groups
        >>> Groups.read([[2, 4]], bf.datasets.anesthesia()).assignment
        array([-1,  0, -1,  0, -1])
        """
        if isinstance(groups, str):
            if groups != "moments":
                raise ModelError(
                    "groups must be 'moments', 'posterior' or say which raters belong together, as "
                    f"a mapping or a list of lists. Got: {groups!r}."
                )
            return cls._found(responses)
        return cls._of(_listed(groups), responses, "given")

    def largest(self, most: int) -> Groups:
        """Return these groups, or the largest of them if they are more than ``most``."""
        order = sorted(self.members, key=lambda name: -len(self.members[name]))[:most]
        kept = [name for name in self.members if name in order]
        number = {self.names.index(name): place for place, name in enumerate(kept)}
        assignment = np.array([number.get(g, ALONE) for g in self.assignment.tolist()])
        return Groups({name: self.members[name] for name in kept}, assignment, self.origin)

    @classmethod
    def _found(cls, responses: Responses) -> Groups:
        try:
            found = find_groups(responses)
        except MomentsError as reason:
            return cls._of({}, responses, f"every rater alone, as moments cannot tell: {reason}")
        return cls._of(_listed(found), responses, "moments")

    @classmethod
    def _of(cls, members: dict[Any, list[Any]], responses: Responses, origin: str) -> Groups:
        place = {rater: index for index, rater in enumerate(responses.raters.tolist())}
        if len(members) > len(place):
            raise ModelError(
                "Groups are sets of raters, so there are at most as many. Got: "
                f"{len(members)} groups of {len(place)} raters."
            )
        seen: dict[Any, Any] = {}
        for name, raters in members.items():
            if len(raters) == 0:
                raise ModelError(f"A group must have raters. Got: none in group {name!r}.")
            for rater in raters:
                if rater not in place:
                    raise ModelError(
                        f"Groups must be of raters of the table. Got: {rater!r} in group {name!r}, "
                        "who is not one of them."
                    )
                if rater in seen:
                    raise ModelError(
                        "A rater follows one source and is in one group, once. Got: "
                        f"{rater!r} in group {seen[rater]!r} and again in {name!r}."
                    )
                seen[rater] = name
        several = {name: list(raters) for name, raters in members.items() if len(raters) > 1}
        unique_names(several, "group")
        assignment = np.full(len(place), ALONE)
        for number, raters in enumerate(several.values()):
            assignment[[place[rater] for rater in raters]] = number
        return cls(several, assignment, origin)


def groups_at_most(most: int | None, responses: Responses) -> int:
    """Return how many groups of two there may be, if no number is given."""
    highest = responses.n_raters // 2
    if highest == 0:
        raise ModelError(
            "A group has two raters or more, so with fewer there are none to infer. Got: "
            f"{responses.n_raters} rater."
        )
    if most is None:
        return highest
    if not isinstance(most, int | np.integer) or not 1 <= most <= highest:
        raise ModelError(
            "To infer groups there must be room for one, and groups have two raters or more, so "
            f"max_groups is from 1 to {highest}. Got: {most!r} for {responses.n_raters} raters."
        )
    return int(most)


def _listed(groups: Any) -> dict[Any, list[Any]]:
    """Return group names to lists of raters."""
    if isinstance(groups, xr.Dataset):
        groups = dict(
            zip(listed(groups["rater"].values), listed(groups["group"].values), strict=True)
        )
    if isinstance(groups, pd.Series):
        groups = groups.to_dict()
    if isinstance(groups, Mapping):
        if all(_is_list(raters) for raters in groups.values()):
            return {name: list(raters) for name, raters in groups.items()}
        members: dict[Any, list[Any]] = {}
        for rater, name in groups.items():
            if _is_list(name):
                raise ModelError(
                    "A mapping gives every group its raters or every rater a group, not both. Got: "
                    f"{name!r} for {rater!r} beside groups by rater."
                )
            if not pd.isna(name):
                members.setdefault(name, []).append(rater)
        return members
    if _is_list(groups) and all(_is_list(raters) for raters in groups):
        return {number: list(raters) for number, raters in enumerate(groups)}
    raise ModelError(
        "groups must be a mapping from groups to raters or from raters to groups, or a list of "
        f"lists of raters. Got: {groups!r}."
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray | set | frozenset) and not isinstance(value, str)
