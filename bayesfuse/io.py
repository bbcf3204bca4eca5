"""Readers and writers of files, and tables in partitions."""

from typing import TYPE_CHECKING

from bayesfuse.numerics.lazy import imported, importer

if TYPE_CHECKING:
    from bayesfuse.data.exports import (
        read_doccano as read_doccano,
        read_label_studio as read_label_studio,
        read_mturk as read_mturk,
        read_prodigy as read_prodigy,
    )
    from bayesfuse.data.inspect_logs import read_inspect as read_inspect
    from bayesfuse.data.label_sets import LabelSets as LabelSets
    from bayesfuse.data.partitions import Partitions as Partitions
    from bayesfuse.data.verdicts import read_verdicts as read_verdicts
    from bayesfuse.data.words import (
        read_conll as read_conll,
        token_features as token_features,
        write_conll as write_conll,
    )
    from bayesfuse.results.probabilities import label_partitions as label_partitions
    from bayesfuse.results.span_tables import read_spans as read_spans

__all__ = sorted(imported(__name__))
__dir__ = __all__.copy
__getattr__ = importer(__name__)
