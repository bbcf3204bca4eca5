"""Names of the groups, variables and attributes of results, which ``results.build`` writes."""

# Groups
POSTERIOR = "posterior"  # draws of the parameters (chain, draw, …)
POINT = "point"  # in its place, the posterior mode
SAMPLE_STATS = "sample_stats"
OBSERVED_DATA, CONSTANT_DATA = "observed_data", "constant_data"
LABEL_POSTERIOR = "label_posterior"  # probabilities of the labels, averaged over draws
LABEL_DRAWS = "label_draws"  # labels of all items (sample, item), on a graph (chain, draw, item)
LOG_LIKELIHOOD = "log_likelihood"  # (chain, draw, item or another unit)
FIT, TRACE = "fit", "trace"  # Dirichlet distributions of bf.fit; iterations of bf.find_map
COMPARISON, RATERS = "comparison", "raters"  # of bf.average; of bf.predict

# Variables of label_posterior (item, class)
PROBABILITY, MCSE = "probability", "mcse"
PRIOR = "prior"  # probabilities before the item's responses, where items differ in them

# Variables of constant_data
ITEM_INDEX, RATER_INDEX, LABEL_INDEX = "item_index", "rater_index", "label_index"  # (responses,)
MULTIPLICITY, GOLD = "multiplicity", "gold"  # (item,)
STATEMENTS = "statements"  # (item,), numbers of stated probabilities and partial answers
SEQUENCE_PLACE = "sequence_place"  # (item,), place in the sequences, one after the other
SEQUENCE_NAME = "sequence_name"  # (sequence,)
ITEM_POPULATION, ITEM_INPUTS = "item_population", "item_inputs"  # (item,), (item, input)

# Attributes of constant_data
FINGERPRINT = "observed"  # digests of the parts of the model, as JSON
PREDICTION = "prediction"  # factors, and where results hold their parameters, as JSON
ORDERED_CLASSES = "ordered_classes"  # 1 if the classes are grades
POSITIVE_CLASS = "positive"  # the positive one of two classes, also of sensitivities

# Attribute of the posterior of an answer
ABILITIES = "abilities"  # 1 if its variables are abilities of raters, not parameters

# Attributes of label_posterior
CHAINS, DRAWS = "chains", "draws"  # numbers of these
DRAWS_VARIABLE, DRAWS_DIGEST = "of_variable", "of_draws"  # which draws the labels belong to
LABELS_DEPEND = "labels_depend"  # 1 if labels depend on other items, or on inputs not stored
KNOWLEDGE_SHARE = "item_knowledge"  # weight of the averaged models that know something of items

# Attributes of results
MISSING, INTERRUPTED = "missing", "interrupted"  # what an interruption left out; 1 if interrupted
