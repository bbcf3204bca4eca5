"""What a result records of the responses that it was computed from."""

import json

import bayesfuse as bf


def digest(responses):
    """Return the digest of the responses, and of what sources state or do not answer."""
    result = bf.vote_shares(responses)
    return json.loads(result["constant_data"].attrs["observed"])["responses"]
