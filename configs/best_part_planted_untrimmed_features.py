# An oracle, no method: the encoder of pooled_planted_untrimmed_features.py, which knows that a clip
# has three moments of about equal length, and compares a text with the mean of the best of them.
_base_ = ['ti_planted_untrimmed_features.py']

model = dict(similarity=dict(_delete_=True, type='BestPartSimilarity', parts=3))
