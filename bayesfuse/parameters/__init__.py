"""Parameters of label priors and rater channels: the contract, and one file per support."""
